record("argmax", reducing(lambda x, axis, keepdims: np.argmax(x, axis=axis, keepdims=keepdims)), dtypes=NUMBERS,
       result="long",
       samples=[call(t(4, 6, unique=True)), call(t()), call(t(4, 6, unique=True), 1),
                call(t(4, 6, unique=True), 0, True), call(t(100, unique=True), -1),
                call(t(3, 4, 5, unique=True, layout="strided"), 1),
                call(t(2, 3, 4, 5, unique=True, layout="channels_last"), 1), call(t(3, 0), 0), call(v([1, 5, 2, 5]), 0),
                call(v([1.0, np.nan, 7.0, np.nan]), 0, only=FLOATS)],
       errors=[error(call(t(0)), IndexError, "argmax"), error(call(t(3, 4), 2), IndexError, DIM_OUT_OF_RANGE)])
