record("frac", lambda x: x - np.trunc(x), dtypes=FLOATS, samples=unary(), exact=True)
