record("ge", np.greater_equal, dtypes=ALL, result="bool",
       samples=binary(scalars=[2], extra=[call(t(50, integer=True), t(50, integer=True))]))
