record("max", extremum(np.max, np.argmax, np.maximum), dtypes=NUMBERS, exact=True, result=("same", "long"),
       samples=[call(t(4, 6)), call(t()), call(t(3001)), call(t(3, 4, 5, layout="strided")), call(t(4, 6), t(6)),
                call(special()), call(t(4, 6, unique=True), 1), call(t(4, 6, unique=True), 0, True), call(t(), 0),
                call(t(3, 4, 5, unique=True, layout="strided"), 1),
                call(t(2, 3, 4, 5, unique=True, layout="channels_last"), 1), call(t(3, 0), 0),
                call(v([1.0, np.nan, 7.0]), 0, only=FLOATS)],
       errors=[error(call(t(0)), IndexError, "max"), error(call(t(3, 4), 2), IndexError, DIM_OUT_OF_RANGE)])
