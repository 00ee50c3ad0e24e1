record("real", np.real, dtypes=FLOATS + COMPLEX, result="real", samples=unary(), exact=True, aliases=True)
