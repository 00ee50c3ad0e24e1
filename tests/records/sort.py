record("sort", stable_sort, dtypes=ALL, exact=True, result=("same", "long"),
       samples=[call(t(7, unique=True), only=NUMBERS), call(t(4, 6, unique=True), 0, only=NUMBERS),
                call(t(4, 6, unique=True), 1, True, only=NUMBERS), call(t(), 0), call(t(0, 3), 0),
                call(t(3, 40, integer=True), stable=True),
                call(t(3, 40, integer=True), stable=True, dim=1, descending=True),
                call(t(4, 9, unique=True, layout="transposed"), -1, only=NUMBERS),
                call(v([3.0, np.nan, 1.0, np.inf, -np.inf]), only=FLOATS), call(t(3000, integer=True), stable=True),
                call(t(2, 3, 4, 5, unique=True, layout="channels_last"), 1, only=NUMBERS)],
       errors=[error(call(t(3), 1), IndexError, DIM_OUT_OF_RANGE)])
