record("abs", np.abs, dtypes=NUMBERS + COMPLEX, result="real", samples=unary())
