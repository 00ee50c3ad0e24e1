record("scatter_add", lambda x, dim, index, src: scatter(x, dim, index, src, "sum"), dtypes=NUMBERS, result="same",
       loose=8, cancels=True, rounds=4,
       samples=[call(t(3, 5), 1, ints(3, 7, high=4), t(3, 7)), call(t(5, 3), 0, ints(2, 3, high=4), t(4, 3)),
                call(t(6), 0, ints(30, high=5), t(30)),
                call(t(3, 5, layout="transposed"), 1, ints(3, 4, high=4), t(3, 4)),
                call(t(3, 4), 1, ints(3, 0), t(3, 4))],
       errors=[error(call(t(3, 4), 1, index([[4]]), t(1, 1)), IndexError, "out of bounds"),
               error(call(t(3), 0, ints(3, high=2), t(2)), ShapeError, "scatter_add")])
