def slopes(g, x, weight, mean, invstd, training):
    weight = np.ones(x.shape[1]) if weight is None else weight

    def normed(a, w, b):
        m = _channels(mean, x)
        r = _channels(invstd, x)
        return (a - m) * r * _channels(w, x) + _channels(b, x)

    dims = (0, *range(2, x.ndim))
    h = (x - _channels(mean, x)) * _channels(invstd, x)
    gi, gw, gb = numerical_gradients(normed, (g,), (x, weight, np.zeros(x.shape[1])), (0, 1, 2))
    if training:  # less what flows through the statistics
        n = x.size / x.shape[1]
        k = _channels(invstd * weight, x)
        gi = gi - k * (_channels(g.sum(dims), x) + h * _channels((g * h).sum(dims), x)) / n
    return gi, gw, gb


record("_batch_norm_backward", slopes, dtypes=[float32, bfloat16], loose=60, rounds=3, result=("same", float32, float32),
       samples=[call(t(3, 2, 4), t(3, 2, 4), t(2), t(2, dtype=float32), t(2, low=0.5, high=1, dtype=float32), True),
                call(t(3, 2, 4), t(3, 2, 4), None, t(2, dtype=float32), t(2, low=0.5, high=1, dtype=float32), False),
                call(t(2, 3, 2, 3, layout="channels_last"), t(2, 3, 2, 3, layout="channels_last"), t(3), t(3, dtype=float32),
                     t(3, low=0.5, high=1, dtype=float32), True)],
       gradient=[call(t(3, 2, 4), t(3, 2, 4), t(2), t(2), t(2, low=0.5, high=1), True), call(t(3, 2), t(3, 2), None, t(2), t(2, low=0.5, high=1), False)],
       errors=[error(call(t(3, 2, 4), t(3, 2, 5), None, t(2), t(2), True), ShapeError, "input's shape")])
