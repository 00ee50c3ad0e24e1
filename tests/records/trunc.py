record("trunc", np.trunc, dtypes=NUMBERS, samples=unary(), exact=True, signed_zero=True)
