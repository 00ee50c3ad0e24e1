record("adaptive_max_pool2d", adaptive_max_pool(2), dtypes=FLOATS, exact=True, result=("same", "long"),
       samples=[call(t(2, 3, 6, 5, unique=True), [3]), call(t(3, 6, 5, unique=True), [2]), call(t(2, 3, 6, 5, unique=True), [1]), call(t(2, 3, 6, 5, unique=True, layout="channels_last"), [2])],
       errors=[error(call(t(2, 3, 6, 5), [-2]), ValueError, "output_size")])
