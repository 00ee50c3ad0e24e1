record("asinh", np.arcsinh, dtypes=ALL, result="float", loose=2,
       samples=unary(extra=[call(t(300, low=-1000, high=1000))]))
