record("clamp_min", lambda x, min: np.maximum(x, min), dtypes=NUMBERS, exact=True,
       samples=[call(t(5, 6), -2, only=FLOATS + [int64]), call(t(5, 6), t(6)), call(t(0), 0), call(t(5003), 1),
                call(t(6, 7, layout="transposed"), 0), call(special(), -1)])
