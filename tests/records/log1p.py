record("log1p", np.log1p, dtypes=ALL, result="float",
       samples=unary(low=-0.99, high=50, extra=[call(t(300, low=-1e-3, high=1e-3))]))
