def bce_with_logits(x, target, weight=None, pos_weight=None, reduction=MEAN):
    positive = 1.0 if pos_weight is None else pos_weight
    loss = positive * target * np.logaddexp(0, -x) + (1 - target) * np.logaddexp(0, x)
    return reduced(loss if weight is None else loss * weight, reduction)


record("binary_cross_entropy_with_logits", bce_with_logits, dtypes=FLOATS, loose=8, rounds=4,
       samples=[call(t(4, 6), t(4, 6, low=0, high=1)), call(t(4, 6), t(4, 6, low=0, high=1), reduction=NONE),
                call(t(4, 6), t(4, 6, low=0, high=1), t(6, low=0, high=2), t(6, low=0.5, high=2)),
                call(t(4, 6, low=-90, high=90), t(4, 6, low=0, high=1), None, None, SUM),
                call(t(2000), t(2000, low=0, high=1))],
       errors=[error(call(t(3), t(4)), ShapeError, "must")])
