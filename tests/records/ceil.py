record("ceil", np.ceil, dtypes=NUMBERS, samples=unary(), exact=True, signed_zero=True)
