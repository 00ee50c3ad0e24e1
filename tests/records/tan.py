record("tan", np.tan, dtypes=EVERY, result="float", loose=4, samples=unary(extra=[call(t(500, low=-100, high=100))]))
