record("scatter_reduce",
       lambda x, dim, index, src, reduce, include_self=True: scatter(x, dim, index, src, reduce, include_self),
       dtypes=FLOATS + [int64, int32], result="same", loose=8, cancels=True, rounds=4,
       samples=[call(t(3, 5, low=0.5, high=2), 1, ints(3, 7, high=4), t(3, 7, low=0.5, high=2), how, include_self=keep)
                for how in ("sum", "prod", "amax", "amin") for keep in (True, False)] +
               [call(t(3, 5), 1, ints(3, 7, high=4), t(3, 7), "mean", only=FLOATS),
                call(t(3, 5), 1, ints(3, 7, high=4), t(3, 7), "mean", include_self=False, only=FLOATS),
                call(t(6), 0, ints(40, high=5), t(40), "amax")],
       errors=[error(call(t(3), 0, index([0]), t(1), "max"), ValueError, "reduce")])
