record("new_full", lambda x, size, fill_value, options=None: np.full(size, fill_value), dtypes=MOVED, result="same",
       exact=True,
       samples=[call(t(2), [3, 4], 1), call(t(2), [], 1), call(t(2), [2], 5, Options(int32))])
