record("addcdiv", lambda x, a, b, value=1: x + value * a / b, dtypes=FLOATS, loose=4,
       samples=[call(t(5, 6), t(5, 6), t(5, 6, low=0.5)), call(t(5, 6), t(6), t(5, 1, nonzero=True)),
                call(t(5, 6), t(6), t(low=1), value=2), call(t(0), t(0), t(0)),
                call(t(2600), t(2600), t(2600, low=1, high=9)),
                call(t(6, 7, layout="transposed"), t(6, 7, layout="strided"), t(7, low=0.5), value=-0.5)])
