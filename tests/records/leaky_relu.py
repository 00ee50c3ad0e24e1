record("leaky_relu", lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope), dtypes=FLOATS,
       samples=unary(extra=[call(t(5, 6), 0.25), call(t(5, 6), -0.5)]))
