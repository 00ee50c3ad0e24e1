record("celu", lambda x, alpha=1: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha)), dtypes=FLOATS,
       samples=unary(extra=[call(t(5, 6), 0.5)]))
