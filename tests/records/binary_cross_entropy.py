def entropy(p, y, weight=None, reduction=MEAN):
    loss = -(y * np.maximum(np.log(p), -100) + (1 - y) * np.maximum(np.log1p(-p), -100))
    loss = loss if weight is None else loss * weight
    return loss if reduction == NONE else loss.mean() if reduction == MEAN else loss.sum()


P = {"low": 0.05, "high": 0.95}
record("binary_cross_entropy", entropy, dtypes=FLOATS, loose=8, rounds=6,
       samples=[call(t(4, 6, **P), t(4, 6, low=0, high=1)), call(t(4, 6, **P), t(4, 6, low=0, high=1), t(6, low=0.5, high=2), SUM),
                call(t(7, **P), t(7, low=0, high=1), None, NONE), call(v([0.0, 1.0, 0.0, 1.0]), v([0.0, 1.0, 1.0, 0.0]))],
       gradient=[call(t(4, 3, **P), t(4, 3, low=0, high=1)), call(t(5, **P), t(5, low=0, high=1), t(5, low=0.5, high=2), SUM)],
       errors=[error(call(v([1.5]), v([1.0])), ValueError, "between 0 and 1", meta=False), error(call(t(3), t(4)), ShapeError, "target size")])
