record("linspace", lambda start, end, steps, options=None: np.linspace(start, end, steps), dtypes=[float32],
       result="default", loose=4,
       samples=[call(0, 1, 5), call(-2.5, 7.0, 100), call(3, 3, 4), call(5, 1, 9), call(0, 1, 1), call(0, 1, 0),
                call(0, 10, 11, Options(float64)), call(-1, 1, 3000), call(0, 8, 9, Options(int32)),
                call(-3, 3, 30, Options(float16))],
       errors=[error(call(0, 1, -1), ValueError, "steps")])
