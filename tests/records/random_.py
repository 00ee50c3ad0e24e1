record("random_", lambda x, *a: x.shape, dtypes=[float32, float64, int64, int32, int16, uint8], result="same",
       random=lambda x, *a: statistics(scipy.stats.randint(*(a if len(a) == 2 else (0, a[0])))),
       samples=[call(t(20000), 100), call(t(20000), 3, 7), call(t(100, 90, layout="transposed"), 0, 120),
                call(t(0), 5)],
       errors=[error(call(t(3), 5, 5), ValueError, "random_"),
               error(call(ints(3, dtype=uint8), 0, 300), ValueError, "out of bounds")])
