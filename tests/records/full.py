record("full", lambda size, fill_value, options=None: np.full(size, fill_value), dtypes=[float32], exact=True,
       result=lambda size, fill_value, options=None: options.dtype if options else promoted(fill_value),
       samples=[call([2, 3], 2.5), call([2, 3], 7), call([], True), call([0], 1.0), call([3], 1 + 2j),
                call([4], 3, Options(float16)), call([4], 2.75, Options(int32)), call([5000], -1, Options(int8)),
                call([2], float("nan"))])
