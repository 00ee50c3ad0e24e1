record("logical_or", np.logical_or, dtypes=ALL, result="bool", samples=binary())
