record("cauchy_", lambda x, *a: x.shape, dtypes=FLOATS, result="same",
       random=lambda x, median=0.0, sigma=1.0:
                statistics(scipy.stats.cauchy(median, sigma), mean=math.nan, std=math.nan),
       samples=[call(t(20000)), call(t(20000), 2.0, 0.5), call(t(100, 90, layout="transposed"), -1.0, 2.0), call(t(0))],
       errors=[error(call(t(3), 0.0, -1.0), ValueError, "sigma")])
