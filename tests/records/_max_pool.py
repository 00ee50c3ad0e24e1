def pooled_with_places(x, sizes, kernel, stride, padding, dilation):
    if not kernel:
        return adaptive_max_pool(x.ndim - 2)(x, sizes)
    return max_pool(x.ndim - 2)(x, kernel, stride, padding, dilation)


record("_max_pool", pooled_with_places, dtypes=FLOATS, exact=True, result=("same", "long"),
       samples=[call(t(2, 3, 6, 5, unique=True), [3, 2], [2, 2], [2, 2], [0, 0], [1, 1]), call(t(2, 3, 6, 5, unique=True), [4, 3], [], [], [], []),
                call(t(1, 3, 9, unique=True), [5], [3], [2], [1], [1])],
       errors=[error(call(t(3, 6), [2, 2], [2, 2], [1, 1], [0, 0], [1, 1]), ShapeError, "does not fit")])
