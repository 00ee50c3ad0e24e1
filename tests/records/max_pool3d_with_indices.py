record("max_pool3d_with_indices", max_pool(3), dtypes=FLOATS, exact=True, result=("same", "long"),
       samples=[call(t(2, 3, 4, 3, 4, unique=True), [2]), call(t(3, 4, 3, 4, unique=True), [2], [1]), call(t(2, 3, 4, 3, 4, unique=True), [3], [2], [1]),
                call(t(2, 2, 4, 3, 4, unique=True), [2], [1], [0], [2]), call(t(2, 3, 4, 3, 4, unique=True, layout="channels_last"), [3], [1], [1])],
       errors=[error(call(t(2, 3, 4, 3, 4), [9]), ShapeError, "too small")])
