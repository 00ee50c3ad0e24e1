def mean_windows(x, sizes, kernel, stride, padding, count_padding, divisor):
    rank = x.ndim - 2
    return avg_pool(rank)(x, kernel, stride, padding, False, count_padding, divisor) if kernel else adaptive_avg_pool(rank)(x, sizes)


record("_avg_pool", mean_windows, dtypes=FLOATS, loose=8, result="same",
       samples=[call(t(2, 3, 6, 5), [3, 2], [2, 2], [2, 2], [0, 0], True, None), call(t(2, 3, 6, 5), [4, 3], [], [], [], False, None),
                call(t(1, 3, 9), [5], [3], [2], [1], False, None), call(t(1, 3, 9), [5], [3], [2], [1], True, 2)],
       errors=[error(call(t(3, 6), [2, 2], [2, 2], [1, 1], [0, 0], True, None), ShapeError, "does not fit")])
