record("hypot", np.hypot, dtypes=FLOATS, samples=binary())
