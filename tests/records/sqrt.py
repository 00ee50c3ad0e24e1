record("sqrt", np.sqrt, dtypes=EVERY, result="float",
       samples=unary(low=0, high=90, extra=[call(t(9, low=-5, high=-1), only=FLOATS)]))
