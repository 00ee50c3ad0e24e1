record("cumsum", along(np.cumsum), dtypes=NUMBERS, loose=16, cancels=True,
       result=lambda x, dim, dtype=None: dtype or (int64 if x.dtype.category < 2 else x.dtype),
       samples=[call(t(4, 6), 1), call(t(4, 6), 0), call(t(), 0), call(t(0, 3), 0),
                call(t(3, 4, 5, layout="strided"), -2), call(t(3000, low=0, high=1), 0),
                call(t(2, 3, 4, 5, layout="channels_last"), 1), call(t(5), 0, dtype=float64)],
       errors=[error(call(t(3, 4), 2), IndexError, DIM_OUT_OF_RANGE)])
