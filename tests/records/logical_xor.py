record("logical_xor", np.logical_xor, dtypes=ALL, result="bool", samples=binary())
