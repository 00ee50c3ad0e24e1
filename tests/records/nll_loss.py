record("nll_loss", nll_loss, dtypes=FLOATS, loose=8, rounds=3,
       samples=[call(t(6, 4), ints(6, high=3)), call(t(6, 4), ints(6, high=3), t(4, low=0.5, high=2)),
                call(t(6, 4), ints(6, high=3), None, NONE), call(t(6, 4), ints(6, high=3), t(4, low=0.5, high=2), SUM),
                call(t(6, 4), index([0, -100, 2, 3, -100, 1])), call(t(6, 4), ints(6, high=3), None, NONE, 2),
                call(t(4), index(2)), call(t(300, 50), ints(300, high=49)),
                call(t(6, 4, layout="transposed"), ints(6, high=3))],
       errors=[error(call(t(3, 4), index([0, 1, 4])), IndexError, "out of bounds"),
               error(call(t(3, 4), ints(2, high=3)), ShapeError, "nll_loss"),
               error(call(t(3, 4), t(3)), DTypeError, "nll_loss")])
