record("as_strided",
       lambda x, size, stride, storage_offset=None:
         np.lib.stride_tricks.as_strided(x.reshape(-1)[storage_offset or 0:], size, [s * x.itemsize for s in stride]),
       dtypes=MOVED, exact=True, aliases=True, layouts=False,
       samples=[call(t(12), [3, 4], [4, 1]), call(t(12), [3, 2], [1, 5], 2), call(t(12), [2, 3, 4], [0, 4, 1]),
                call(t(12), [], [], 5), call(t(4), [0], [1])],
       errors=[error(call(t(4), [3], [2]), IndexError, "out of bounds for storage"),
               error(call(t(4), [2, 2], [1]), ShapeError, "as_strided")])
