record("allclose", lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: bool(np.allclose(a, b, rtol, atol, equal_nan)),
       dtypes=FLOATS, meta=False,
       samples=[call(t(4, 6), t(4, 6)), call(v([1.0, 2.0]), v([1.0, 2.0])), call(v([1.0, 2.0]), v([1.0, 2.125]), 0.25),
                call(v([np.nan]), v([np.nan])), call(v([np.nan]), v([np.nan]), equal_nan=True)])
