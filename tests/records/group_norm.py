record("group_norm", group_norm, dtypes=FLOATS, loose=60, rounds=8, result="same",
       samples=[call(t(2, 6, 5), 3, t(6), t(6)), call(t(2, 6, 4, 3), 2), call(t(2, 6, 4, 3), 6, t(6)), call(t(2, 6, 4, 3), 1, None, t(6), 1e-3),
                call(t(2, 6, 4, 3, layout="channels_last"), 2, t(6), t(6)), call(t(3, 4), 2, t(4), t(4)), call(t(0, 4, 3), 2)],
       gradient=[call(t(2, 4, 3), 2, t(4), t(4), 1e-3)],
       errors=[error(call(t(2, 5, 3), 2), ShapeError, "divisible by num_groups"), error(call(t(2, 4), 0), ValueError, "num groups")])
