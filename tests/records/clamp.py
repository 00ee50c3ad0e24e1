record("clamp", lambda x, min=None, max=None: np.clip(x, min, max), dtypes=NUMBERS, exact=True, result="scalars",
       samples=[call(t(5, 6), 1, 3), call(t(5, 6), -2, 3, only=FLOATS + [int64, int8]), call(t(5, 6), 1),
                call(t(5, 6), None, 2), call(t(5003), 0, 1), call(t(0), 0, 1), call(t(), 1, 2),
                call(t(4, 5), t(5, high=0), t(4, 1, low=1)), call(t(4, 5), t(5)),
                call(t(6, 7, layout="transposed"), 0, 2), call(special(), -1, 1), call(t(5, 6), 3, 1),
                call(t(6), -1.5, 1.5, only=FLOATS)],
       errors=[error(call(t(3)), ValueError, "clamp")])
