record("uniform_", lambda x, *a: x.shape, dtypes=FLOATS, result="same",
       random=lambda x, low=0.0, high=1.0: statistics(scipy.stats.uniform(low, high - low)),
       samples=[call(t(20000)), call(t(20000), -2.0, 6.0), call(t(100, 90, layout="transposed"), 1.0, 2.0), call(t(0)),
                call(t(7, layout="strided"))],
       errors=[error(call(t(3), 2.0, 1.0), ValueError, "uniform_"), error(call(ints(3)), DTypeError, "uniform_")])
