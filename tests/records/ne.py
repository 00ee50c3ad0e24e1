record("ne", np.not_equal, dtypes=EVERY, result="bool",
       samples=binary(scalars=[2], extra=[call(t(50, integer=True), t(50, integer=True))]))
