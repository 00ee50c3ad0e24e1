record("max_pool2d", lambda *a: max_pool(2)(*a)[0], dtypes=FLOATS, exact=True, result="same",
       samples=[call(t(2, 3, 6, 5, unique=True), [2]), call(t(3, 6, 5, unique=True), [2], [1]), call(t(2, 3, 6, 5, unique=True), [3], [2], [1]),
                call(t(2, 2, 6, 5, unique=True), [2], [1], [0], [2]), call(t(2, 3, 6, 5, unique=True), [2], [2], [1], [1], True),
                call(t(2, 3, 6, 5, unique=True, layout="channels_last"), [3], [2], [1]), call(t(2, 3, 6, 5, unique=True, layout="strided"), [2]),
                call(t(0, 3, 6, 5), [2])],
       errors=[error(call(t(2, 3, 6, 5), [9]), ShapeError, "too small"), error(call(t(2, 3, 6, 5), [0]), ValueError, "kernel size"),
               error(call(t(2, 3, 6, 5), [2], [1], [2]), ValueError, "half of"), error(call(t(2, 0, 6, 5), [2]), ShapeError, "non-zero size"),
               error(call(t(2, 3, 6, 5, dtype=int64), [2]), DTypeError, "not implemented")])
