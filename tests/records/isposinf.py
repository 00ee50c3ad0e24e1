record("isposinf", lambda x: x == np.inf, dtypes=ALL, result="bool", samples=unary())
