record("zeros", lambda size, options=None: np.zeros(size), dtypes=[float32], result="default", exact=True,
       samples=[call([2, 3]), call([]), call([0, 4]), call([5], Options(int64)), call([2, 2], Options(complex64)),
                call([4000], Options(boolean)), call([3], Options(bfloat16))],
       errors=[error(call([2, -1]), ShapeError, "negative dimension")])
