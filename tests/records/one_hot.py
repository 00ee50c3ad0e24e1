record("one_hot", lambda x, num_classes=-1: np.eye(num_classes if num_classes > 0 else x.max() + 1, dtype="i8")[x],
       dtypes=[float32], result="long", meta=False,
       samples=[call(ints(4, high=5), 6), call(ints(2, 3, high=5), 8), call(ints(high=3), 4), call(index([2, 0, 4])),
                call(ints(3, 2, high=5, layout="transposed"), 6)],
       errors=[error(call(index([3]), 3), ValueError, "one_hot"), error(call(index([-1]), 3), ValueError, "one_hot"),
               error(call(t(3), 3), DTypeError, "one_hot")])
