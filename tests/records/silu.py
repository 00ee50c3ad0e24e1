record("silu", lambda x: x * scipy.special.expit(x), dtypes=FLOATS,
       samples=unary(skip=["-inf"], extra=[call(t(200, low=-50, high=50))]))
