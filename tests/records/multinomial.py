def multinomial_statistics(x, num_samples, replacement=False):
    if not replacement:
        return statistics(low=0, high=x.shape[-1] - 1, permutation=num_samples == x.shape[-1])
    weights = np.atleast_2d(x)[0]
    cdf = np.minimum(np.cumsum(weights / weights.sum())[:-1], 1.0)
    return statistics(low=0, high=x.shape[-1] - 1, cdf=[(float(i), float(p)) for i, p in enumerate(cdf)])


record("multinomial", lambda x, n, replacement=False: x.shape[:-1] + (n,), dtypes=FLOATS, result="long",
       random=multinomial_statistics,
       samples=[call(v([1.0, 2.0, 0.0, 5.0]), 20000, True), call(v([[1.0, 3.0]] * 40), 500, True),
                call(v([0.5] * 100), 100), call(v([1.0, 2.0, 3.0]), 1), call(t(4, 50, low=0.5, high=2), 10)],
       errors=[error(call(v([1.0, -1.0]), 1), ValueError, "multinomial"),
               error(call(v([1.0, 1.0]), 3), ValueError, "multinomial"),
               error(call(v([0.0, 0.0]), 1, True), ValueError, "multinomial"),
               error(call(ints(3, low=1), 1), DTypeError, "multinomial")])
