record("isneginf", lambda x: x == -np.inf, dtypes=ALL, result="bool", samples=unary())
