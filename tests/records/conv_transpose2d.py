record("conv_transpose2d", conv_transpose(2), dtypes=FLOATS, loose=60, threads=False, rounds=2,
       samples=[call(t(2, 3, 6, 5, **U), t(3, 4, 3, 2, **U), t(4, **U)), call(t(3, 6, 5, **U), t(3, 2, 3, 2, **U), None, [2], [1], [1]),
                call(t(2, 4, 6, 5, **U), t(4, 3, 3, 2, **U), None, [2], [0], [0], 2), call(t(1, 2, 6, 5, **U), t(2, 2, 3, 2, **U), None, [1], [0], [0], 1, [2])],
       gradient=[call(t(1, 2, 3, 3, **U), t(2, 2, 2, 2, **U), t(2, **U), [2], [0], [1]),
                 call(t(1, 2, 3, 4, **U), t(2, 2, 2, 2, **U), None, [1, 2], [1, 0], [2, 2], 1, [3])],
       errors=[error(call(t(2, 2, 6, 5), t(3, 4, 3, 2)), ShapeError, "channels"), error(call(t(7), t(3, 4, 3, 2)), ShapeError, "conv_transpose2d")])
