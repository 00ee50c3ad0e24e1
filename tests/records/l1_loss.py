record("l1_loss", lambda x, target, reduction=MEAN: reduced(np.abs(x - target), reduction), dtypes=FLOATS, loose=8,
       rounds=3,
       samples=[call(t(4, 6), t(4, 6)), call(t(4, 6), t(4, 6), NONE), call(t(4, 6), t(4, 6), SUM),
                call(t(3000), t(3000)), call(t(4, 6, layout="transposed"), t(4, 6)), call(t(), t())],
       errors=[error(call(t(3), t(4)), ShapeError, "must match")])
