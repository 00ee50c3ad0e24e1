record("avg_pool2d", avg_pool(2), dtypes=FLOATS, loose=8, result="same",
       samples=[call(t(2, 3, 6, 5), [2]), call(t(3, 6, 5), [2], [1]), call(t(2, 3, 6, 5), [3], [2], [1]),
                call(t(2, 3, 6, 5), [3], [2], [1], False, False), call(t(2, 3, 6, 5), [2], [2], [1], True), call(t(2, 3, 6, 5), [3], [2], [1], True, False),
                call(t(2, 3, 6, 5, layout="channels_last"), [3], [1], [1]), call(t(0, 3, 6, 5), [2]), call(t(2, 3, 6, 5), [2], [1], [1], False, True, 3)],
       errors=[error(call(t(2, 3, 6, 5), [9]), ShapeError, "too small"), error(call(t(2, 3, 6, 5), [2], [0]), ValueError, "stride")])
