record("constant_pad_nd", lambda x, pad, value=0: padded_like_torch(x, pad, "constant", value), dtypes=MOVED,
       exact=True,
       samples=[call(t(3, 4), [1, 2]), call(t(3, 4), [1, 0, 2, 1], 1), call(t(3, 4), [-1, 2, 1, -1]),
                call(t(0, 3), [1, 1, 1, 1], 2, only=NUMBERS), call(t(3, 4, 5, layout="transposed"), [2, 2])],
       errors=[error(call(t(3), [1]), ValueError, "pad"), error(call(t(3), [1, 1, 1, 1]), ValueError, "pad"),
               error(call(t(3), [-2, -2]), ShapeError, "negative output size")])
