record("where", lambda condition, a=None, b=None: np.nonzero(condition) if a is None else np.where(condition, a, b),
       dtypes=EVERY, exact=True, result="scalars",
       samples=[call(mask(5, 6), t(5, 6), t(5, 6)), call(mask(5, 1), t(6), t()), call(mask(), t(3), t(3)),
                call(mask(0), t(0), t(0)), call(mask(2700), t(2700), t(2700)),
                call(mask(6, 7, layout="transposed"), t(6, 7, layout="strided"), t(6, 7)),
                call(mask(4, 4), t(4, 4), t(4, 4, dtype=float64), only=FLOATS), call(mask(5), t(5), 2, only=NUMBERS)],
       errors=[error(call(mask(3), t(4), t(3)), ShapeError, "must match")],
       gradient_extra=[call(mask(5), 2, t(5))])
