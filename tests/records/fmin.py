record("fmin", np.fmin, dtypes=ALL, samples=binary(), exact=True)
