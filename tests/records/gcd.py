record("gcd", np.gcd, dtypes=INTS, samples=binary(low=-60, high=60))
