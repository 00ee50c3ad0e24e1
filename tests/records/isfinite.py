record("isfinite", np.isfinite, dtypes=EVERY, result="bool", samples=unary())
