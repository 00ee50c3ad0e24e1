record("baddbmm", lambda x, a, b, beta=1, alpha=1: alpha * (a @ b) + (beta * x if beta else 0), dtypes=FLOATS + [int64],
       loose=60,
       samples=[call(t(2, 3, 4, **U), t(2, 3, 5, **U), t(2, 5, 4, **U)),
                call(t(4, **U), t(2, 3, 5, **U), t(2, 5, 4, **U), beta=2, alpha=3),
                call(t(2, 3, 4), t(2, 3, 0), t(2, 0, 4), beta=2),
                call(t(2, 3, 4, layout="transposed", **U), t(2, 3, 5, layout="strided", **U), t(2, 5, 4, **U), beta=0)],
       errors=[error(call(t(2, 3, 4), t(2, 3, 5), t(3, 5, 4)), ShapeError, "baddbmm")])
