record("lt", np.less, dtypes=ALL, result="bool",
       samples=binary(scalars=[2], extra=[call(t(50, integer=True), t(50, integer=True))]),
       errors=[error(call(t(3), t(4)), ShapeError, "must match")])
