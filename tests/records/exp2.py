record("exp2", np.exp2, dtypes=ALL, result="float",
       samples=unary(extra=[call(t(400, low=-150, high=130), only=WIDE_FLOATS)]))
