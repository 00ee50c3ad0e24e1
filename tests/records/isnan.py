record("isnan", np.isnan, dtypes=EVERY, result="bool", samples=unary())
