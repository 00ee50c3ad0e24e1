# Complex arguments stay away from the poles at odd multiples of pi i, near which errors grow without bound.
record("sigmoid", lambda x: np.where(np.real(x) < -700, 0.0, 1 / (1 + np.exp(-x))), dtypes=EVERY, result="float",
       loose=4,
       samples=unary(low=-3, high=3, extra=[call(t(300, low=-6, high=6), only=FLOATS),
                                            call(t(300, low=-100, high=100), only=FLOATS)]))
