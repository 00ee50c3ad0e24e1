record("logspace", lambda start, end, steps, base=10.0, options=None: np.logspace(start, end, steps, base=base),
       dtypes=[float32], result="default", loose=16,
       samples=[call(0, 1, 5), call(-2.5, 2.0, 50), call(0, 5, 6, 2.0), call(0, 1, 1), call(0, 1, 0),
                call(-3, 3, 13, options=Options(float64))],
       errors=[error(call(0, 1, -1), ValueError, "steps")])
