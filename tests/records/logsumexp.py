record("logsumexp", reducing(lambda x, axis, keepdims: scipy.special.logsumexp(x, axis=axis, keepdims=keepdims)),
       dtypes=FLOATS, loose=4,
       samples=[call(t(4, 6), [1]), call(t(4, 6), [0], True), call(t(3, 4, 5, layout="strided"), [0, 2]),
                call(t(), [0]), call(t(6, 500, low=-300, high=300), [1]), call(v([-np.inf, -np.inf]), [0]),
                call(v([np.inf, 1.0]), [0]), call(t(0, 3), [1])],
       errors=[error(call(t(3, 4), [2]), IndexError, DIM_OUT_OF_RANGE)])
