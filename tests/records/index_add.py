record("index_add",
       lambda x, dim, index, source, alpha=1: index_along(x, dim, index, source, lambda a, b: a + alpha * b),
       dtypes=NUMBERS, result="same", loose=4, cancels=True, rounds=8,
       samples=[call(t(5, 4), 0, ints(3, high=4), t(3, 4)), call(t(5, 4), 1, ints(6, high=3), t(5, 6)),
                call(t(5), 0, ints(9, high=4), t(9), alpha=2),
                call(t(4, 5, 6, layout="transposed"), 1, ints(3, high=4), t(4, 3, 6)),
                call(t(5, 4), 0, ints(0), t(0, 4))],
       errors=[error(call(t(3, 4), 0, index([3]), t(1, 4)), IndexError, "out of"),
               error(call(t(3, 4), 0, index([0, 1]), t(1, 4)), ShapeError, "index_add")])
