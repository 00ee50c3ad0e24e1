record("split",
       lambda x, size, dim=0:
         split_every(x, size, dim) if isinstance(size, int) else np.split(x, np.cumsum(size)[:-1], dim), dtypes=MOVED,
       exact=True, aliases=True,
       samples=[call(t(7, 4), 3), call(t(7, 4), 2, 1), call(t(7), [2, 0, 5]), call(t(5), 10),
                call(t(6, 5, layout="transposed"), [1, 4], -1)],
       errors=[error(call(t(3), -1), ValueError, "split"), error(call(t(5), [2, 2]), ValueError, "split_with_sizes")])
