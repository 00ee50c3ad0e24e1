record("std", variance(np.std), dtypes=FLOATS, loose=8,
       samples=[call(t(4, 6)), call(t(3001)), call(t(4, 6), [1]), call(t(4, 6), [0], True, True),
                call(t(4, 6), [1], False), call(t(3, 4, 5, layout="strided"), [0, 2]),
                call(t(6, 500, low=99, high=101), [1], loose=200), call(t(3, 4, 5), [1], correction=0),
                call(t(3, 4, 5), [1], correction=2, keepdim=True), call(t(1), [0]),
                call(t(2, 3, 4, 5, layout="channels_last"), [1, 3]), call(t(4, 5), False)],
       errors=[error(call(ints(3)), DTypeError, "std"), error(call(t(3, 4), [2]), IndexError, DIM_OUT_OF_RANGE)])
