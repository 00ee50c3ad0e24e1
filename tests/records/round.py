record("round", lambda x, decimals=0: np.rint(x * 10.0**decimals) / 10.0**decimals, dtypes=FLOATS + INTS, rounds=2,
       samples=unary(extra=[call(v([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.4999])),
                            call(t(40, low=-50, high=50), decimals=-1, only=FLOATS),
                            call(t(40), decimals=2, only=WIDE_FLOATS)]))
