record("rand_like", lambda x, *rest: x.shape, dtypes=FLOATS, result="same", random=statistics(scipy.stats.uniform()),
       samples=[call(t(20000)), call(t(100, 90, layout="transposed")), call(t(9000), Options(float64)), call(t(0))])
