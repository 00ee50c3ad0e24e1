record("softplus", lambda x, beta=1, threshold=20: np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta),
       dtypes=FLOATS,
       samples=unary(extra=[call(t(200, low=-30, high=30)), call(t(5, 6), 2.0, 3.0)]))
