record("log_sigmoid", lambda x: -np.logaddexp(0, -x), dtypes=FLOATS,
       samples=unary(extra=[call(t(200, low=-90, high=90))]))
