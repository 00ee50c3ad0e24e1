record("logical_and", np.logical_and, dtypes=ALL, result="bool", samples=binary())
