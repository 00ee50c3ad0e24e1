record("relu6", lambda x: np.clip(x, 0, 6), dtypes=NUMBERS, samples=unary(low=-9, high=9), exact=True)
