record("exponential_", lambda x, *a: x.shape, dtypes=FLOATS, result="same",
       random=lambda x, lambd=1.0: statistics(scipy.stats.expon(scale=1 / lambd)),
       samples=[call(t(20000)), call(t(20000), 2.5), call(t(100, 90, layout="transposed"), 0.5), call(t(0))],
       errors=[error(call(t(3), -1.0), ValueError, "exponential_")])
