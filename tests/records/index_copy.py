record("index_copy", lambda x, dim, index, source: index_along(x, dim, index, source, lambda a, b: b), dtypes=MOVED,
       result="same", exact=True,
       samples=[call(t(5, 4), 0, shuffled(3, dim=0, size=5), t(3, 4)),
                call(t(5, 4), 1, shuffled(2, dim=0, size=4), t(5, 2)), call(t(5), 0, shuffled(5, dim=0, size=5), t(5)),
                call(t(4, 5, 6, layout="transposed"), 1, shuffled(3, dim=0, size=5), t(4, 3, 6))],
       errors=[error(call(t(3, 4), 0, index([3]), t(1, 4)), IndexError, "out of"),
               error(call(t(3, 4), 0, index([0, 1]), t(1, 4)), ShapeError, "index_copy"),
               error(call(t(3), 0, index([0]), t(1, dtype=float64)), DTypeError, "index_copy")])
