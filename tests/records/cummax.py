record("cummax", lambda x, dim: running(x, dim, np.greater_equal), dtypes=NUMBERS, exact=True, result=("same", "long"),
       samples=[call(t(4, 6), 1), call(t(4, 6), 0), call(t(), 0), call(t(3, 4, 5, layout="strided"), -2),
                call(t(0, 3), 1), call(v([1, 3, 3, 2, 5]), 0)],
       errors=[error(call(t(3, 4), 2), IndexError, DIM_OUT_OF_RANGE)])
