record("put", put, dtypes=NUMBERS, result="same", loose=4, cancels=True, rounds=4,
       samples=[call(t(3, 4), shuffled(5, dim=0, size=12), t(5)), call(t(3, 4), ints(30, high=11), t(30), True),
                call(t(3, 4, layout="transposed"), shuffled(5, dim=0, size=12), t(5)), call(t(4), ints(0), t(0))],
       errors=[error(call(t(3), index([3]), t(1)), IndexError, "out of"),
               error(call(t(3), index([0]), t(2)), ShapeError, "put"),
               error(call(t(3), index([0]), t(1, dtype=float64)), DTypeError, "put")])
