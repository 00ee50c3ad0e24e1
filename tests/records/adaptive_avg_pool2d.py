record("adaptive_avg_pool2d", adaptive_avg_pool(2), dtypes=FLOATS, loose=12, result="same", rounds=2,
       samples=[call(t(2, 3, 6, 5), [3]), call(t(3, 6, 5), [2]), call(t(2, 3, 6, 5), [1]), call(t(2, 3, 6, 5), [5]),
                call(t(2, 3, 6, 5, layout="channels_last"), [2])],
       errors=[error(call(t(2, 3, 6, 5), [-2]), ValueError, "output_size"), error(call(t(5), [2]), ShapeError, "adaptive_avg_pool2d")])
