record("squeeze", lambda x, dim=None: squeezed(x, dim), dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(2, 1, 3, 1)), call(t(2, 1, 3, 1), 1), call(t(2, 1, 3, 1), 0), call(t(1, 2, 1), [0, -1]),
                call(t()), call(t(), 0), call(t(1, 0)), call(t(3, 1, 4, layout="strided"), -2)],
       errors=[error(call(t(2, 3), 2), IndexError, DIM_OUT_OF_RANGE)])
