record("split_with_sizes", lambda x, sizes, dim=0: np.split(x, np.cumsum(sizes)[:-1], dim), dtypes=MOVED, exact=True,
       aliases=True,
       samples=[call(t(7), [2, 0, 5]), call(t(7, 4), [1, 3], 1), call(t(6, 5, layout="transposed"), [1, 4], -1)],
       errors=[error(call(t(5), [2, 2]), ValueError, "split_with_sizes")])
