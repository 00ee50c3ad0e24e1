record("tensor_split",
       lambda x, where, dim=0: np.array_split(x, where.tolist() if isinstance(where, np.ndarray) else where, dim),
       dtypes=MOVED, exact=True, aliases=True, meta=False,
       samples=[call(t(7, 4), 3), call(t(7), [2, 5]), call(t(4, 7), 2, 1), call(t(7), index([1, 3])),
                call(t(7), index(3)), call(t(5), 7)],
       errors=[error(call(t(3), 0), ValueError, "number of sections must be larger than 0")])
