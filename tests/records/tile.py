record("tile", lambda x, dims: np.tile(x, dims), dtypes=MOVED, exact=True,
       samples=[call(t(3), [2]), call(t(3), [4, 2]), call(t(2, 3, 4), [2]), call(t(), [3, 2]),
                call(t(3, 4, layout="transposed"), [1, 2])])
