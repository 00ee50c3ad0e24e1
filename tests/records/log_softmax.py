record("log_softmax", along(lambda x, dim: scipy.special.log_softmax(x, axis=dim)), dtypes=FLOATS, loose=2,
       samples=[call(t(5, 7), -1), call(t(0, 4), 1), call(t(1), 0), call(t(), 0),
                call(t(3, 4, 5, layout="transposed"), 1), call(t(4, 1000, low=-80, high=80), 1), call(t(1000, 4), 0),
                call(t(2, 3, 4, 5, layout="channels_last"), 1), call(v([[1.0, -np.inf, 2.0]]), 1),
                call(t(3, 70), 1, dtype=float64)],
       errors=[error(call(t(3), 4), IndexError, DIM_OUT_OF_RANGE)],
       gradient_extra=[call(t(3, 5), 1, dtype=float32)])
