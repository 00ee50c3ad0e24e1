record("cos", np.cos, dtypes=EVERY, result="float", samples=unary(extra=[call(t(500, low=-3e4, high=3e4))]))
