record("unique_consecutive", unique_consecutive, dtypes=NUMBERS, exact=True, meta=False,
       result=("same", "long", "long"),
       samples=[call(v([1, 1, 2, 2, 2, 1, 3, 3])), call(v([1, 1, 2, 2, 2, 1, 3, 3]), True, True),
                call(t(60, integer=True, low=0, high=2), True, True), call(v([[1, 2], [1, 2], [3, 4]]), True, True, 0),
                call(t(0), True, True), call(t(3, 8, integer=True, low=0, high=1, layout="transposed"), True, True)])
