record("diag_embed", lambda x, offset=0, dim1=-2, dim2=-1: embedded_diagonal(x, offset, dim1, dim2), dtypes=MOVED,
       exact=True,
       samples=[call(t(4)), call(t(2, 3)), call(t(2, 3), 1), call(t(2, 3), -1, 0, 2),
                call(t(3, 2, layout="transposed"))],
       errors=[error(call(t(3), 0, 1, 1), ValueError, "identical")])
