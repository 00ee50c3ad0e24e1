record("view_as", lambda x, other: x.reshape(other.shape), dtypes=MOVED, exact=True, aliases=True, devices=False,
       samples=[call(t(3, 4), t(2, 6)), call(t(), t(1, 1)), call(t(0, 2), t(5, 0))],
       errors=[error(call(t(3, 4), t(5)), ShapeError, "invalid for input of size")])
