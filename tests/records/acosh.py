record("acosh", np.arccosh, dtypes=ALL, result="float", loose=2, samples=unary(low=1, high=90))
