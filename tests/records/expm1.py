record("expm1", np.expm1, dtypes=ALL, result="float", samples=unary(extra=[call(t(400, low=-1e-3, high=1e-3))]))
