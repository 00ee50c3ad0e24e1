record("flip", lambda x, dims: np.flip(x, tuple(dims)), dtypes=MOVED, exact=True,
       samples=[call(t(3, 4), [0]), call(t(3, 4), [0, -1]), call(t(0, 3), [1]), call(t(2, 3, 4, layout="strided"), [1]),
                call(t(3001), [0]), call(t(2, 3, 4, 5, layout="channels_last"), [1, 3]), call(t(3, 4), [])],
       errors=[error(call(t(3), [0, 0]), ValueError, "appears multiple times"),
               error(call(t(3), [1]), IndexError, DIM_OUT_OF_RANGE)])
