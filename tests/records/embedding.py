record("embedding", lambda weight, indices, *rest: weight[indices], dtypes=FLOATS, result="same", exact=True,
       samples=[call(t(10, 4), ints(5, high=9)), call(t(10, 4), ints(2, 3, high=9)), call(t(10, 4), index(3)),
                call(t(10, 4), ints(0)), call(t(10, 4, layout="transposed"), ints(7, high=9, dtype=int32)),
                call(t(100, 33), ints(60, high=99), 2)],
       errors=[error(call(t(3, 4), index([3])), IndexError, "out of range"),
               error(call(t(3), index([0])), ShapeError, "weight"),
               error(call(t(3, 4), t(2)), DTypeError, "embedding")])
