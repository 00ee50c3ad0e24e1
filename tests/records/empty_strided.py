record("empty_strided", lambda size, stride, options=None: np.zeros(size), dtypes=[float32], result="default",
       values=False,
       samples=[call([2, 3], [1, 2]), call([2, 3], [10, 2], Options(float64)), call([], []), call([0, 2], [1, 1])],
       errors=[error(call([2, 3], [1]), ShapeError, "empty_strided"), error(call([2], [-1]), ValueError, "stride")])
