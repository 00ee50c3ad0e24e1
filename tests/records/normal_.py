record("normal_", lambda x, *a: x.shape, dtypes=FLOATS, result="same",
       random=lambda x, mean=0.0, std=1.0: statistics(scipy.stats.norm(mean, std)),
       samples=[call(t(20000)), call(t(20000), 2.0, 0.5), call(t(100, 90, layout="transposed"), -1.0, 2.0), call(t(0)),
                call(t(7, layout="strided"))],
       errors=[error(call(t(3), 0.0, -1.0), ValueError, "std"), error(call(ints(3)), DTypeError, "normal_")])
