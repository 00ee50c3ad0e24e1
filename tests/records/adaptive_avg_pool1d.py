record("adaptive_avg_pool1d", adaptive_avg_pool(1), dtypes=FLOATS, loose=12, result="same", rounds=2,
       samples=[call(t(2, 3, 7), [3]), call(t(3, 7), [2]), call(t(2, 3, 7), [1]), call(t(2, 3, 7), [5]),
                call(t(2, 3, 7, layout="channels_last"), [2])],
       errors=[error(call(t(2, 3, 7), [-2]), ValueError, "output_size"), error(call(t(5), [2]), ShapeError, "adaptive_avg_pool1d")])
