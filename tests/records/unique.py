record("unique", unique, dtypes=ALL, exact=True, meta=False, result=("same", "long", "long"),
       samples=[call(t(9, integer=True)), call(t(4, 6, integer=True), True, True),
                call(t(30, integer=True), True, True, True), call(t(0)), call(t(), True, True, True),
                call(t(5, 6, integer=True, layout="transposed"), True, True, True),
                call(t(2000, integer=True), True, True, True)])
