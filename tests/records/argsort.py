record("argsort", lambda x, *a, **k: stable_sort(x, *a, **k)[1], dtypes=NUMBERS, result="long",
       samples=[call(t(7, unique=True)), call(t(4, 6, unique=True), 0), call(t(4, 6, unique=True), 1, True),
                call(t(), 0), call(t(3, 40, integer=True), stable=True, descending=True),
                call(t(4, 9, unique=True, layout="transposed"), -1)],
       errors=[error(call(t(3), 1), IndexError, DIM_OUT_OF_RANGE)])
