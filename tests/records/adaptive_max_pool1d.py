record("adaptive_max_pool1d", adaptive_max_pool(1), dtypes=FLOATS, exact=True, result=("same", "long"),
       samples=[call(t(2, 3, 7, unique=True), [3]), call(t(3, 7, unique=True), [2]), call(t(2, 3, 7, unique=True), [1]), call(t(2, 3, 7, unique=True, layout="channels_last"), [2])],
       errors=[error(call(t(2, 3, 7), [-2]), ValueError, "output_size")])
