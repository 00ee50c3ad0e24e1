record("scalar_tensor", lambda s, options=None: np.asarray(s), dtypes=[float32], result="default", exact=True,
       samples=[call(2.5), call(3), call(True), call(3, Options(int64)), call(1 + 2j, Options(complex64))])
