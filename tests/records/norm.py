record("norm", vector_norm, dtypes=FLOATS, loose=8,
       samples=[call(t(4, 6)), call(t(4, 6), 1), call(t(4, 6), 3, [1]), call(t(4, 6), float("inf"), [0]),
                call(t(4, 6), 2, [1], True), call(t(4, 6), 0, [1]), call(t(3, 4, 5, layout="strided"), 2, [0, 2]),
                call(t(3001))],
       gradient_extra=[call(t(4, 6), 1.5), call(t(4, 6), 1.5, [0], True), call(t(4, 6), 4), call(t(4, 6), -1, [1]),
                       call(t(4, 6), float("-inf"), [1]), call(t(), 2),
                       call(t(4, 6), 2, dtype=float64, only=[float64]),
                       call(t(4, 6), 3, [1], False, dtype=float64, only=[float64])])
