record("take", lambda x, index: x.reshape(-1)[index], dtypes=MOVED, result="same", exact=True,
       samples=[call(t(3, 4), ints(5, high=11)), call(t(3, 4), ints(2, 3, low=-12, high=11)),
                call(t(3, 4, layout="transposed"), ints(5, high=11)), call(t(4), ints(0)), call(t(), index([0, 0]))],
       errors=[error(call(t(3), index([3])), IndexError, "out of"), error(call(t(3), t(2)), DTypeError, "take")])
