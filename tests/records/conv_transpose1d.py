record("conv_transpose1d", conv_transpose(1), dtypes=FLOATS, loose=60, threads=False, rounds=2,
       samples=[call(t(2, 3, 7, **U), t(3, 4, 3, **U), t(4, **U)), call(t(3, 7, **U), t(3, 2, 3, **U), None, [2], [1], [1]),
                call(t(2, 4, 7, **U), t(4, 3, 3, **U), None, [2], [0], [0], 2), call(t(1, 2, 7, **U), t(2, 2, 3, **U), None, [1], [0], [0], 1, [2])],
       gradient=[call(t(1, 2, 4, **U), t(2, 2, 2, **U), t(2, **U), [2], [0], [1]), call(t(1, 2, 4, **U), t(2, 2, 2, **U), None, [1], [1], [2], 1, [3])],
       errors=[error(call(t(2, 2, 7), t(3, 4, 3)), ShapeError, "channels"), error(call(t(7), t(3, 4, 3)), ShapeError, "conv_transpose1d")])
