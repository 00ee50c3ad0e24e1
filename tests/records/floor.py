record("floor", np.floor, dtypes=NUMBERS, samples=unary(), exact=True, signed_zero=True)
