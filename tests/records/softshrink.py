record("softshrink", lambda x, lambd=0.5: np.where(np.isnan(x), x, np.sign(x) * np.maximum(np.abs(x) - lambd, 0)),
       dtypes=FLOATS,
       samples=unary(skip=["nan"], extra=[call(t(5, 6), 1.5)]))
