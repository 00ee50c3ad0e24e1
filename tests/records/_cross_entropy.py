def with_sums(x, target, weight, reduction, ignore_index, smoothing, dtype=None):
    share = np.ones(x.shape[1]) if weight is None else weight
    total = sum(share[k] for k in target if k != ignore_index)
    return cross_entropy(x, target, weight, reduction, ignore_index, smoothing), scipy.special.logsumexp(x, axis=1), np.asarray(total)


FLOAT_SUMS = lambda *args, **kwargs: float64 if args[0].dtype is float64 else float32  # noqa: E731
W = {"low": 0.5, "high": 2}
record("_cross_entropy", with_sums, dtypes=FLOATS, loose=16, rounds=4, result=("same", FLOAT_SUMS, FLOAT_SUMS),
       samples=[call(t(6, 4), ints(6, high=3), None, MEAN, -100, 0.0), call(t(6, 4), index([0, 1, -100, 3, 2, 1]), held(t(4, **W)), SUM, -100, 0.1),
                call(t(6, 4), ints(6, high=3), held(t(4, **W)), NONE, -100, 0.0)],
       errors=[error(call(t(3, 4), ints(2, high=3), None, MEAN, -100, 0.0), ShapeError, "one int64 class")])
