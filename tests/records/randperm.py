record("randperm", lambda n, *rest, **k: [n], dtypes=[float32],
       result=lambda n, *a, options=None: options.dtype if options else int64,
       random=lambda n, *a, **k: statistics(permutation=True),
       samples=[call(0), call(1), call(50), call(20000), call(100, options=Options(int32)),
                call(100, options=Options(float32))],
       errors=[error(call(-1), ValueError, "n")])
