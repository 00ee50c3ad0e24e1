record("log10", np.log10, dtypes=ALL, result="float",
       samples=unary(low=0.01, high=50, extra=[call(t(300, low=0.99, high=1.01))]))
