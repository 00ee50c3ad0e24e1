record("bmm", np.matmul, dtypes=FLOATS + COMPLEX + [int64], loose=60,
       samples=[call(t(2, 3, 5, **U), t(2, 5, 4, **U)),
                call(t(7, 10, 12, layout="transposed", **U), t(7, 12, 9, layout="transposed", **U)),
                call(t(0, 3, 4), t(0, 4, 2)), call(t(2, 3, 0), t(2, 0, 4)),
                call(t(3, 20, 200, **U), t(3, 200, 20, layout="strided", **U)),
                call(t(4, 3, 2, layout="expanded", **U), t(4, 2, 5, **U))],
       errors=[error(call(t(2, 3, 4), t(3, 4, 5)), ShapeError, "bmm"),
               error(call(t(2, 3), t(2, 3, 4)), ShapeError, "must be a")])
