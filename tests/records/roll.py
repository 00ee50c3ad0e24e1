record("roll", lambda x, shifts, dims=(): np.roll(x, shifts, tuple(dims)) if dims else np.roll(x, shifts[0]),
       dtypes=MOVED, exact=True,
       samples=[call(t(7), [2]), call(t(3, 4), [-1], [1]), call(t(3, 4), [1, 5], [0, 1]), call(t(3, 4), [2]),
                call(t(0, 3), [1], [0]), call(t(3, 4, 5, layout="strided"), [2], [-1]), call(t(5), [-12], [0])],
       errors=[error(call(t(3, 4), [1, 2], [0]), ValueError, "roll"),
               error(call(t(3), [1], [1]), IndexError, DIM_OUT_OF_RANGE)])
