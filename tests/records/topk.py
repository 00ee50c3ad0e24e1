record("topk", topk, dtypes=NUMBERS, exact=True, result=("same", "long"),
       samples=[call(t(9, unique=True), 3), call(t(4, 9, unique=True), 2, 0), call(t(4, 9, unique=True), 3, 1, False),
                call(t(3, 80, unique=True), 80), call(t(5, unique=True), 0),
                call(t(6, 7, unique=True, layout="transposed"), 4), call(t(2, 100, unique=True), 5, -1, True, True),
                call(v([1.0, np.nan, 3.0]), 2, only=FLOATS)],
       errors=[error(call(t(3), 4), IndexError, "k"), error(call(t(3), 1, 1), IndexError, DIM_OUT_OF_RANGE)])
