record("pad", lambda x, pad, mode="constant", value=None: padded_like_torch(x, pad, mode, value or 0), dtypes=MOVED,
       exact=True,
       samples=[call(t(3, 4), [1, 2]), call(t(3, 4), [1, 0, 2, 1], "constant", 1.0), call(t(3, 4), [-1, 2]),
                call(t(2, 3, 5), [2, 1], "reflect"), call(t(2, 3, 5), [2, 3], "replicate"),
                call(t(2, 3, 5), [2, 3], "circular"), call(t(2, 3, 4, 5), [1, 2, 2, 1], "reflect"),
                call(t(2, 3, 4, 5), [1, 2, 2, 1], "replicate"),
                call(t(2, 3, 4, 5, layout="channels_last"), [1, 2, 0, 1], "circular")],
       errors=[error(call(t(3), [1]), ValueError, "pad"), error(call(t(1, 1, 3), [3, 0], "reflect"), ValueError, "pad"),
               error(call(t(1, 1, 3), [1, 1], "mirror"), ValueError, "mirror")])
