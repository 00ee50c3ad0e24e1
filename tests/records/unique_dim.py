record("unique_dim",
       lambda x, dim, sorted=True, return_inverse=False, return_counts=False:
         unique(x, sorted, return_inverse, return_counts, dim), dtypes=NUMBERS, exact=True, meta=False,
       result=("same", "long", "long"),
       samples=[call(t(6, 2, integer=True, low=0, high=1), 0, True, True, True),
                call(t(2, 8, integer=True, low=0, high=1), 1, True, True, True),
                call(t(9, integer=True), 0, True, True, True)])
