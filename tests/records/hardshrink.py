record("hardshrink", lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0.0, x), dtypes=FLOATS, exact=True,
       samples=unary(extra=[call(t(5, 6), 1.5)]))
