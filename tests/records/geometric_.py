record("geometric_", lambda x, p: x.shape, dtypes=[float32, float64, int64, int32], result="same",
       random=lambda x, p: statistics(scipy.stats.geom(p)),
       samples=[call(t(20000), 0.5), call(t(20000), 0.25), call(t(100, 90, layout="transposed"), 0.75),
                call(t(0), 0.5)],
       errors=[error(call(t(3), 0.0), ValueError, "geometric_"), error(call(t(3), 1.0), ValueError, "geometric_")])
