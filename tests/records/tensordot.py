record("tensordot", lambda a, b, dims_a, dims_b: np.tensordot(a, b, (dims_a, dims_b)), dtypes=FLOATS, loose=60,
       samples=[call(t(3, 4, 5, **U), t(4, 3, 2, **U), [1, 0], [0, 1]), call(t(3, 4, **U), t(5, 4, **U), [1], [1]),
                call(t(3), t(4), [], []), call(t(4, 3, layout="transposed", **U), t(4, **U), [-2], [0])],
       errors=[error(call(t(3, 4), t(3, 5), [1], [1]), ShapeError, "tensordot"),
               error(call(t(3, 4), t(3, 5), [0, 1], [0]), ShapeError, "tensordot")])
