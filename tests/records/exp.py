record("exp", np.exp, dtypes=EVERY, result="float",
       samples=unary(extra=[call(t(400, low=-110, high=92), only=WIDE_FLOATS)]))
