record("signbit", np.signbit, dtypes=NUMBERS, result="bool", samples=unary(skip=["nan"]))
