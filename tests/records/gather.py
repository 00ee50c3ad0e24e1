record("gather", gather, dtypes=MOVED, result="same", exact=True,
       samples=[call(t(3, 4), 1, ints(3, 6, high=3)), call(t(3, 4), 0, ints(2, 4, high=2)),
                call(t(3, 4), -1, ints(2, 2, high=3)), call(t(5), 0, ints(9, high=4)), call(t(), 0, index(0)),
                call(t(3, 4), 1, ints(3, 0)), call(t(4, 5, 6, layout="transposed"), 1, ints(4, 7, 6, high=4)),
                call(t(90, 70), 1, ints(90, 40, high=69)), call(t(3, 4), 1, ints(3, 6, high=3, layout="transposed"))],
       errors=[error(call(t(3, 4), 1, index([[4]])), IndexError, "out of bounds"),
               error(call(t(3, 4), 2, index([[0]])), IndexError, DIM_OUT_OF_RANGE),
               error(call(t(3, 4), 1, index([0])), ShapeError, "same number of dimensions"),
               error(call(t(3, 4), 1, t(3, 4)), DTypeError, "int64")])
