def divergence(x, y, reduction=MEAN, log_target=False):
    loss = np.exp(y) * (y - x) if log_target else scipy.special.xlogy(y, y) - y * x
    return loss if reduction == NONE else loss.mean() if reduction == MEAN else loss.sum()


record("kl_div", divergence, dtypes=FLOATS, loose=12, rounds=4,
       samples=[call(t(4, 6), t(4, 6, low=0.1, high=1)), call(t(4, 6), t(4, 6, low=-2, high=0), SUM, log_target=True),
                call(t(5), t(5, low=0.1, high=1), NONE)],
       errors=[error(call(t(3), t(3), 7), ValueError, "reduction")])
