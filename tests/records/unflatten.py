record("unflatten", lambda x, dim, sizes: x.reshape(x.shape[:dim % x.ndim] + tuple(sizes) + x.shape[dim % x.ndim + 1:]),
       dtypes=MOVED, exact=True,
       samples=[call(t(6, 4), 0, [2, 3]), call(t(2, 12), -1, [3, -1]),
                call(t(8, 3, layout="transposed"), 0, [2, 2, 2])],
       errors=[error(call(t(6), 0, [4, 2]), ShapeError, "unflatten")])
