record("avg_pool1d", avg_pool(1), dtypes=FLOATS, loose=8, result="same",
       samples=[call(t(2, 3, 7), [2]), call(t(3, 7), [2], [1]), call(t(2, 3, 7), [3], [2], [1]),
                call(t(2, 3, 7), [3], [2], [1], False, False), call(t(2, 3, 7), [2], [2], [1], True), call(t(2, 3, 7), [3], [2], [1], True, False),
                call(t(2, 3, 7, layout="channels_last"), [3], [1], [1]), call(t(0, 3, 7), [2])],
       errors=[error(call(t(2, 3, 7), [9]), ShapeError, "too small"), error(call(t(2, 3, 7), [2], [0]), ValueError, "stride")])
