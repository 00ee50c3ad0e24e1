record("all", reducing(lambda x, **k: np.all(x, **k)), dtypes=ALL,
       result=lambda x, *a, **k: x.dtype if x.dtype.name == "uint8" else "bool",
       samples=[call(t(4, 6)), call(t()), call(v([1, 2, 3])), call(t(4, 6), 1), call(t(2, 4, 2, low=0, high=1), [0, 2]),
                call(t(3, 1, 4, integer=True), [1], True), call(t(), [0]), call(v([[1, 0], [1, 1]]), 1, True),
                call(t(0)), call(t(0, 3), 0), call(t(3, 4, 5, layout="transposed", integer=True), 1)],
       errors=[error(call(t(3, 4), 2), IndexError, DIM_OUT_OF_RANGE)])
