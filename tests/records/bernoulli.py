def bernoulli_statistics(x, p=None):
    p = float(np.mean(x)) if p is None else float(np.mean(p))
    return statistics(low=0, high=1, mean=p, std=(p * (1 - p)) ** 0.5, cdf=[(0.0, 1 - p)])


record("bernoulli", lambda x, p=None: x.shape, dtypes=FLOATS, result="same", random=bernoulli_statistics,
       samples=[call(v([0.25] * 20000)), call(t(20000), 0.75), call(v([0.0] * 50)), call(v([1.0] * 50)),
                call(v([[0.5] * 200] * 100, layout="transposed"))],
       errors=[error(call(v([1.5])), ValueError, "bernoulli"), error(call(t(3), 1.5), ValueError, "bernoulli")])
