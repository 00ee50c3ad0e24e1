record("index_fill", lambda x, dim, index, value: index_along(x, dim, index, value, lambda a, b: b), dtypes=NUMBERS,
       result="same", exact=True,
       samples=[call(t(5, 4), 0, ints(3, high=4), 2), call(t(5, 4), 1, ints(2, high=3), t()), call(t(5), 0, ints(0), 7),
                call(t(4, 5, 6, layout="transposed"), 1, ints(3, high=4), 1)],
       errors=[error(call(t(3, 4), 0, index([3]), 1.0), IndexError, "out of")])
