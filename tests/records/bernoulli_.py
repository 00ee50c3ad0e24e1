def bernoulli_statistics(x, p=0.5):
    p = float(np.mean(p))
    return statistics(low=0, high=1, mean=p, std=(p * (1 - p)) ** 0.5, cdf=[(0.0, 1 - p)])


record("bernoulli_", lambda x, p=0.5: x.shape, dtypes=FLOATS + [int32, uint8, boolean], result="same",
       random=bernoulli_statistics,
       samples=[call(t(20000)), call(t(20000), 0.75), call(t(20000), v([0.25] * 20000, float32)),
                call(t(100, 90, layout="transposed"), 0.3), call(t(50), 0.0), call(t(0), 0.5)],
       errors=[error(call(t(3), 1.5), ValueError, "bernoulli_")])
