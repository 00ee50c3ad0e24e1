record("adaptive_avg_pool3d", adaptive_avg_pool(3), dtypes=FLOATS, loose=12, result="same", rounds=2,
       samples=[call(t(2, 3, 4, 3, 4), [3]), call(t(3, 4, 3, 4), [2]), call(t(2, 3, 4, 3, 4), [1]), call(t(2, 3, 4, 3, 4), [5]),
                call(t(2, 3, 4, 3, 4, layout="channels_last"), [2])],
       errors=[error(call(t(2, 3, 4, 3, 4), [-2]), ValueError, "output_size"), error(call(t(5), [2]), ShapeError, "adaptive_avg_pool3d")])
