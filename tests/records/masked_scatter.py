record("masked_scatter", masked_scatter, dtypes=MOVED, result="same", exact=True,
       samples=[call(t(5, 4), mask(5, 4), t(20)), call(t(5, 4), mask(4), t(5, 4)),
                call(t(5, 4, layout="transposed"), mask(5, 4), t(30)), call(t(0), mask(0), t(0))],
       errors=[error(call(t(3), index([True, True, True], boolean), t(2)), ShapeError, "masked_scatter", meta=False),
               error(call(t(3), mask(3), t(3, dtype=float64)), DTypeError, "masked_scatter")])
