record("mT", lambda x: np.swapaxes(x, -1, -2), dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(3, 4)), call(t(2, 3, 4)), call(t(2, 0, 4))],
       errors=[error(call(t(3)), ShapeError, "mT")])
