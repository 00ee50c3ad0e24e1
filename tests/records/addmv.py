record("addmv", lambda x, a, b, beta=1, alpha=1: alpha * (a @ b) + (beta * x if beta else 0), dtypes=FLOATS + [int64],
       loose=60, rounds=12,  # the product is rounded before it is multiplied by alpha
       samples=[call(t(3, **U), t(3, 5, **U), t(5, **U)), call(t(**U), t(3, 5, **U), t(5, **U), beta=2, alpha=3),
                call(t(30, **U), t(30, 60, layout="transposed", **U), t(60, **U), beta=0)],
       errors=[error(call(t(3), t(3, 4), t(5)), ShapeError, "size mismatch")])
