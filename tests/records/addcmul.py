record("addcmul", lambda x, a, b, value=1: x + value * a * b, dtypes=NUMBERS, loose=4,
       samples=[call(t(5, 6), t(5, 6), t(5, 6)), call(t(5, 6), t(6), t(5, 1)), call(t(5, 6), t(6), t(), value=2),
                call(t(0), t(0), t(0)), call(t(2600), t(2600), t(2600)),
                call(t(6, 7, layout="transposed"), t(6, 7, layout="strided"), t(7), value=-3, only=FLOATS)])
