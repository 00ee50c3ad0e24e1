record("logaddexp2", np.logaddexp2, dtypes=FLOATS, samples=binary(), loose=2)
