record("reciprocal", lambda x: 1 / x, dtypes=NUMBERS + COMPLEX, result="float", samples=unary(nonzero=True))
