WITH_ZEROS = [[0.0, 1.5, 2.0], [0.0, -0.5, 0.0], [1.0, 2.0, 3.0]]

record("cumprod", along(np.cumprod), dtypes=NUMBERS, loose=40, rounds=2,
       result=lambda x, dim, dtype=None: dtype or (int64 if x.dtype.category < 2 else x.dtype),
       samples=[call(t(4, 6), 1), call(t(4, 6), 0), call(t(), 0), call(t(0, 3), 0),
                call(t(3, 4, 5, layout="strided"), -2), call(t(300, low=0.9, high=1.1), 0),
                call(t(5), 0, dtype=float64)],
       errors=[error(call(t(3, 4), 2), IndexError, DIM_OUT_OF_RANGE)],
       gradient_extra=[call(exactly(WITH_ZEROS), 1), call(exactly(WITH_ZEROS), 0),
                       call(exactly([2.0, 0.0, 3.0, 0.0, 1.5, 2.5]), 0)])
