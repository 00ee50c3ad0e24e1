record("diag", lambda x, diagonal=0: np.diag(x, diagonal), dtypes=MOVED, exact=True,
       samples=[call(t(4)), call(t(4), 1), call(t(4), -2), call(t(3, 5)), call(t(3, 5), 2),
                call(t(5, 3, layout="transposed"), -1)],
       errors=[error(call(t(2, 3, 4)), ShapeError, "diag"), error(call(t()), ShapeError, "diag")])
