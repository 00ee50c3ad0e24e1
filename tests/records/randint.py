record("randint", lambda *a, **k: next(x for x in a if isinstance(x, list)), dtypes=[float32],
       result=lambda *a, options=None: options.dtype if options else int64,
       random=lambda *a, **k:
                statistics(scipy.stats.randint(a[0] if isinstance(a[1], int) else 0, a[1] if isinstance(a[1], int) else
                a[0])),
       samples=[call(10, [30000]), call(-3, 4, [200, 100]), call(2, [20000], options=Options(uint8)),
                call(0, 100000, [20000], options=Options(int32)), call(5, [0]),
                call(0, 9, [20000], options=Options(float32))],
       errors=[error(call(3, 3, [4]), ValueError, "less than"),
               error(call(0, 300, [4], options=Options(uint8)), ValueError, "out of bounds")])
