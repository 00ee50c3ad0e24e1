record("norm", vector_norm, dtypes=FLOATS, loose=8,
       samples=[call(t(4, 6)), call(t(4, 6), 1), call(t(4, 6), 3, [1]), call(t(4, 6), float("inf"), [0]),
                call(t(4, 6), 2, [1], True), call(t(4, 6), 0, [1]), call(t(3, 4, 5, layout="strided"), 2, [0, 2]),
                call(t(3001))])
