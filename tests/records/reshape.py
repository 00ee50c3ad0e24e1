record("reshape", lambda x, shape: x.reshape(shape), dtypes=MOVED, exact=True,
       samples=[call(t(4, 6), [3, 8]), call(t(4, 6), [-1]), call(t(0, 3), [3, 0]), call(t(), [1]),
                call(t(4, 6, layout="transposed"), [24]), call(t(2, 3, 4, layout="strided"), [4, 6]),
                call(t(2, 3, 4, 5, layout="channels_last"), [2, -1]), call(t(4, 9, layout="expanded"), [6, 6])],
       errors=[error(call(t(3, 4), [5, -1]), ShapeError, "invalid for input of size"),
               error(call(t(3, 4), [-1, -1]), ShapeError, "only one dimension can be inferred")])
