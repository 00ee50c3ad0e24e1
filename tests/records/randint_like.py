record("randint_like", lambda x, *a: x.shape, dtypes=[float32, int64, uint8], result="same",
       random=lambda x, *a: statistics(scipy.stats.randint(*(a if len(a) == 2 else (0, a[0])))),
       samples=[call(t(20000), 10), call(t(100, 90, layout="transposed"), 3, 7)])
