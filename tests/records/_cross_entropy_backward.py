def slopes(g, x, target, weight, logsumexp, total, reduction, ignore_index, smoothing):
    return numerical_gradients(lambda a: cross_entropy(a, target, weight, reduction, ignore_index, smoothing), (g,), (x,), (0,))


X = np.random.default_rng(7).integers(-16, 16, (5, 4)) / 8.0
SUMS = scipy.special.logsumexp(X, axis=1)
WEIGHTS = np.array([0.5, 1.0, 2.0, 1.5])
T1, T2 = [0, 3, 1, 2, 1], [0, -100, 1, 2, 1]


def saved(values):
    return v(values, dtype=float32)


record("_cross_entropy_backward", slopes, dtypes=[float32, bfloat16], loose=40, rounds=3, result=lambda *args, **kwargs: args[1].dtype,
       samples=[call(t(), v(X), index(T1), None, saved(SUMS), saved(5.0), MEAN, -100, 0.0),
                call(t(), v(X), index(T2), v(WEIGHTS), saved(SUMS), saved(float(WEIGHTS[[0, 1, 2, 1]].sum())), MEAN, -100, 0.25),
                call(t(5), v(X), index(T2), None, saved(SUMS), saved(4.0), NONE, -100, 0.0), call(t(), v(X), index(T1), v(WEIGHTS), saved(SUMS), saved(6.0), SUM, -100, 0.0)],
       errors=[error(call(t(2), v(X), index(T1), None, saved(SUMS), saved(5.0), MEAN, -100, 0.0), ShapeError, "loss's shape")])
