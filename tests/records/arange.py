record("arange",
       lambda start, end=None, step=1, options=None:
         np.arange(start, end, step) if end is not None else np.arange(start), dtypes=[float32],
       result=lambda *a, options=None:
                options.dtype if options else int64 if all(isinstance(x, int) for x in a) else float32,
       samples=[call(5), call(2, 9), call(2, 30, 3), call(9, 2, -2), call(0), call(2.5), call(0.0, 1.0, 0.125),
                call(-1.5, 2.0, 0.5), call(6, options=Options(float64)), call(0, 5000, 1, options=Options(int32)),
                call(1, 8, 2, options=Options(bfloat16)), call(1.0, -1.0, -0.25)],
       errors=[error(call(0, 5, 0), ValueError, "step must be nonzero"), error(call(0, 5, -1), ValueError, "arange")])
