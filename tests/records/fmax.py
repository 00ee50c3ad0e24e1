record("fmax", np.fmax, dtypes=ALL, samples=binary(), exact=True)
