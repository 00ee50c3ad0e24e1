record("max_pool1d", lambda *a: max_pool(1)(*a)[0], dtypes=FLOATS, exact=True, result="same",
       samples=[call(t(2, 3, 7, unique=True), [2]), call(t(3, 7, unique=True), [2], [1]), call(t(2, 3, 7, unique=True), [3], [2], [1]),
                call(t(2, 2, 7, unique=True), [2], [1], [0], [2]), call(t(2, 3, 7, unique=True), [2], [2], [1], [1], True),
                call(t(2, 3, 7, unique=True, layout="channels_last"), [3], [2], [1]), call(t(2, 3, 7, unique=True, layout="strided"), [2]),
                call(t(0, 3, 7), [2])],
       errors=[error(call(t(2, 3, 7), [9]), ShapeError, "too small"), error(call(t(2, 3, 7), [0]), ValueError, "kernel size"),
               error(call(t(2, 3, 7), [2], [1], [2]), ValueError, "half of"), error(call(t(2, 0, 7), [2]), ShapeError, "non-zero size"),
               error(call(t(2, 3, 7, dtype=int64), [2]), DTypeError, "not implemented")])
