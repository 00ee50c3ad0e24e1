record("isinf", np.isinf, dtypes=EVERY, result="bool", samples=unary())
