record("take_along_dim", take_along_dim, dtypes=MOVED, result="same", exact=True,
       samples=[call(t(3, 4), ints(3, 2, high=3), 1), call(t(3, 4), ints(1, 2, high=3), 1),
                call(t(3, 4), ints(5, high=11)), call(t(3, 1, layout="strided"), ints(2, 5, high=2), 0)],
       errors=[error(call(t(3, 4), t(3, 4), 1), DTypeError, "take_along_dim")])
