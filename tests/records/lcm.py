record("lcm", np.lcm, dtypes=INTS, samples=binary(low=1, high=10))
