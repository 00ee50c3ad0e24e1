record("max_pool2d_with_indices", max_pool(2), dtypes=FLOATS, exact=True, result=("same", "long"),
       samples=[call(t(2, 3, 6, 5, unique=True), [2]), call(t(3, 6, 5, unique=True), [2], [1]), call(t(2, 3, 6, 5, unique=True), [3], [2], [1]),
                call(t(2, 2, 6, 5, unique=True), [2], [1], [0], [2]), call(t(2, 3, 6, 5, unique=True, layout="channels_last"), [3], [1], [1])],
       errors=[error(call(t(2, 3, 6, 5), [9]), ShapeError, "too small")])
