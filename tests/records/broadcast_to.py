record("broadcast_to", lambda x, size: np.broadcast_to(x, size), dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(3, 1), [3, 4]), call(t(4), [2, 3, 4]), call(t(), [2]), call(t(1, 0), [5, 0])],
       errors=[error(call(t(3), [4]), ShapeError, "expand")])
