record("log_normal_", lambda x, *a: x.shape, dtypes=FLOATS, result="same",
       random=lambda x, mean=1.0, std=2.0:
                statistics(scipy.stats.lognorm(std, scale=math.exp(mean)), mean=math.nan, std=math.nan),
       samples=[call(t(20000)), call(t(20000), 0.5, 0.5), call(t(100, 90, layout="transposed"), 0.0, 1.0), call(t(0))],
       errors=[error(call(t(3), 0.0, -1.0), ValueError, "std")])
