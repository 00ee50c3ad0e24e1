record("lerp", lambda start, end, weight: start + weight * (end - start), dtypes=FLOATS, loose=4,
       samples=[call(t(5, 6), t(5, 6), 0.25), call(t(5, 6), t(6), t(5, 1)), call(t(), t(3), 0.75),
                call(t(0), t(0), 0.5), call(t(4, 700), t(4, 700), t(700)),
                call(t(6, 7, layout="transposed"), t(6, 7, layout="strided"), 0.9)])
