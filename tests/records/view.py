record("view", lambda x, size: x.reshape(size) if isinstance(size, list) else reinterpreted(x, size), dtypes=MOVED,
       exact=True, aliases=True,
       samples=[call(t(4, 6), [3, 8]), call(t(4, 6), [-1]), call(t(4, 6), [2, -1, 3]), call(t(0, 3), [3, 0]),
                call(t(), [1, 1]), call(t(1), []), call(t(2, 3, 4, layout="strided"), [2, 3, 2, 2]),
                call(t(5, 4, 6, layout="offset"), [20, 6]), call(t(4, 6), int32, only=[float32]),
                call(t(4, 6), uint8, only=[float32])],
       errors=[error(call(t(3, 4), [5, -1]), ShapeError, "invalid for input of size"),
               error(call(t(3, 4), [-1, -1]), ShapeError, "only one dimension can be inferred"),
               error(call(t(3, 4, layout="transposed"), [12]), ShapeError, "view")])
