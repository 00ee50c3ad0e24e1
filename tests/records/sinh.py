record("sinh", np.sinh, dtypes=EVERY, result="float", loose=2, samples=unary(extra=[call(t(300, low=-88, high=88))]))
