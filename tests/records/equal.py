record("equal", lambda a, b: bool(a.shape == b.shape and np.array_equal(a, b)), dtypes=ALL, meta=False,
       samples=[call(t(4, 6), t(4, 6)), call(v([1, 0]), v([1, 0])), call(v([1, 0]), v([[1, 0]])), call(t(0), t(0)),
                call(v([np.nan]), v([np.nan]), only=FLOATS)])
