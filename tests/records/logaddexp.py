record("logaddexp", np.logaddexp, dtypes=FLOATS, samples=binary(), loose=2)
