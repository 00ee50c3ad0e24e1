record("rsqrt", lambda x: 1 / np.sqrt(x), dtypes=ALL, result="float", samples=unary(low=0.1, high=90, nonzero=True))
