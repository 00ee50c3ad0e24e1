record("adaptive_max_pool3d", adaptive_max_pool(3), dtypes=FLOATS, exact=True, result=("same", "long"),
       samples=[call(t(2, 3, 4, 3, 4, unique=True), [3]), call(t(3, 4, 3, 4, unique=True), [2]), call(t(2, 3, 4, 3, 4, unique=True), [1]), call(t(2, 3, 4, 3, 4, unique=True, layout="channels_last"), [2])],
       errors=[error(call(t(2, 3, 4, 3, 4), [-2]), ValueError, "output_size")])
