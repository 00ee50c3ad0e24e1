def smooth_l1(d, beta):
    return np.where(d < beta, 0.5 * d * d / (beta or 1), d - 0.5 * beta)


record("smooth_l1_loss",
       lambda x, target, reduction=MEAN, beta=1.0: reduced(smooth_l1(np.abs(x - target), beta), reduction),
       dtypes=FLOATS, loose=8, rounds=3,
       samples=[call(t(4, 6), t(4, 6)), call(t(4, 6), t(4, 6), NONE, 0.5), call(t(4, 6), t(4, 6), SUM, 2.0),
                call(t(3000), t(3000)), call(t(4, 6), t(4, 6), NONE, 0.0)],
       errors=[error(call(t(3), t(3), MEAN, -1.0), ValueError, "negative values for beta")])
