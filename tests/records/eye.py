record("eye", lambda n, m=None, options=None: np.eye(n, m), dtypes=[float32], result="default", exact=True,
       samples=[call(3), call(3, 5), call(5, 2), call(0), call(4, options=Options(int64)),
                call(2, 3, Options(boolean))],
       errors=[error(call(-1), ValueError, "eye")])
