record("sigmoid", lambda x: np.where(np.real(x) < -700, 0.0, 1 / (1 + np.exp(-x))), dtypes=EVERY, result="float",
       loose=4,
       samples=unary(extra=[call(t(300, low=-100, high=100), only=FLOATS)]))
