def with_sums_and_slope(x, target, weight, reduction, ignore_index, smoothing, dtype=None):
    share = np.ones(x.shape[1]) if weight is None else weight
    total = sum(share[k] for k in target if k != ignore_index)
    loss = cross_entropy(x, target, weight, reduction, ignore_index, smoothing)
    slope = np.zeros_like(x)
    for i, k in enumerate(target):
        if k == ignore_index:
            continue
        wanted = share * smoothing / x.shape[1]
        wanted[k] += (1 - smoothing) * share[k]
        slope[i] = scipy.special.softmax(x[i]) * wanted.sum() - wanted
    if reduction == MEAN:
        slope /= total
    return loss, scipy.special.logsumexp(x, axis=1), np.asarray(total), slope


FLOAT_SUMS = lambda *args, **kwargs: float64 if args[0].dtype is float64 else float32  # noqa: E731
W = {"low": 0.5, "high": 2}
record("_cross_entropy_with_slope", with_sums_and_slope, dtypes=FLOATS, loose=40, rounds=4, result=("same", FLOAT_SUMS, FLOAT_SUMS, "same"),
       samples=[call(t(6, 4), ints(6, high=3), None, MEAN, -100, 0.0), call(t(6, 4), index([0, 1, -100, 3, 2, 1]), held(t(4, **W)), SUM, -100, 0.1),
                call(t(6, 4), ints(6, high=3), held(t(4, **W)), NONE, -100, 0.0), call(t(5, 7), index([0, 6, -1, 3, 2]), held(t(7, **W)), MEAN, -1, 0.2)],
       errors=[error(call(t(3, 4), ints(2, high=3), None, MEAN, -100, 0.0), ShapeError, "one int64 class"),
               error(call(t(3, 4, dtype=bfloat16), ints(3, high=3), None, MEAN, -100, 0.0, float64), DTypeError, "can be of that dtype or of Float")])
