record("atan", np.arctan, dtypes=ALL, result="float", samples=unary(extra=[call(t(300, low=-1000, high=1000))]))
