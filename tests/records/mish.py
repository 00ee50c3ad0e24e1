record("mish", lambda x: x * np.tanh(np.logaddexp(0, x)), dtypes=FLOATS, loose=2,
       samples=unary(skip=["-inf"], extra=[call(t(200, low=-50, high=50))]))
