record("huber_loss",
       lambda x, target, reduction=MEAN, delta=1.0: reduced(scipy.special.huber(delta, x - target), reduction),
       dtypes=FLOATS, loose=8, rounds=4,
       samples=[call(t(4, 6), t(4, 6)), call(t(4, 6), t(4, 6), NONE, 0.5), call(t(4, 6), t(4, 6), SUM, 2.0),
                call(t(3000), t(3000))],
       errors=[error(call(t(3), t(3), MEAN, 0.0), ValueError, "non-positive values for delta")])
