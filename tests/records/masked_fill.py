record("masked_fill", lambda x, mask, value: np.where(mask, value, x), dtypes=ALL, result="same", exact=True,
       samples=[call(t(5, 6), mask(5, 6), 3), call(t(5, 6), mask(6), 1), call(t(5, 6), mask(5, 1), t()),
                call(t(0), mask(0), 1), call(t(2700), mask(2700), 2), call(t(6, 7, layout="transposed"), mask(6, 7), 0),
                call(t(4), mask(4), float("-inf"), only=FLOATS)],
       errors=[error(call(t(3), mask(4), 1), ShapeError, "must match"), error(call(t(3), t(3), 1), DTypeError, "mask")])
