record("cdist", lambda a, b, p=2, compute_mode=None: vector_norm(a[..., :, None, :] - b[..., None, :, :], p, -1),
       dtypes=WIDE_FLOATS, loose=40,
       samples=[call(t(4, 6), t(5, 6)), call(t(2, 4, 6), t(2, 5, 6), 1.0), call(t(4, 6), t(5, 6), float("inf")),
                call(t(4, 6), t(5, 6), 3.0), call(t(4, 6), t(5, 6), 0.0), call(t(40, 30), t(50, 30), loose=40),
                call(t(4, 6, layout="transposed"), t(5, 6))],
       errors=[error(call(t(3, 4), t(3, 5)), ShapeError, "cdist"),
               error(call(t(3, 4), t(3, 4), -1.0), ValueError, "cdist")])
