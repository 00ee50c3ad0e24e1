record("expand_as", lambda x, other: np.broadcast_to(x, other.shape), dtypes=MOVED, exact=True, aliases=True, devices=False,
       samples=[call(t(3, 1), t(3, 4)), call(t(), t(2, 3)), call(t(4), t(3, 4))],
       errors=[error(call(t(3, 2), t(3, 4)), ShapeError, "expand")])
