record("_convolution_weight_grad", convolution_weight_grad, dtypes=FLOATS, loose=60, threads=False, rounds=2,
       samples=[call(t(2, 3, 3, 4, **U), t(2, 2, 5, 5, **U), [3, 2, 3, 2], [1], [0], [1], False, 1),
                call(t(2, 2, 3, 3, **U), t(2, 2, 5, 5, **U), [2, 1, 3, 3], [2], [1], [1], False, 2),
                call(t(1, 2, 6, 5, **U), t(1, 3, 3, 4, **U), [3, 2, 3, 2], [2, 1], [1, 0], [1], True, 1),
                call(t(2, 3, 3, 4, layout="channels_last", **U), t(2, 2, 5, 5, layout="channels_last", **U), [3, 2, 3, 2], [1], [0], [1],
                     False, 1),
                call(t(0, 3, 3, 4), t(0, 2, 5, 5), [3, 2, 3, 2], [1], [0], [1], False, 1)],
       errors=[error(call(t(2, 3, 3, 3), t(2, 2, 5, 5), [3, 2, 3, 2], [1], [0], [1], False, 1), ShapeError, "does not lead")])
