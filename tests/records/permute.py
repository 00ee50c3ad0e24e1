record("permute", lambda x, dims: x.transpose(dims), dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(2, 3, 4), [2, 0, 1]), call(t(2, 3, 4), [-1, 0, 1]), call(t(), []), call(t(0, 3), [1, 0]),
                call(t(2, 3, 4, 5, layout="channels_last"), [0, 2, 3, 1])],
       errors=[error(call(t(2, 3), [0]), ShapeError, "permute"),
               error(call(t(2, 3), [0, 0]), ValueError, "appears multiple times"),
               error(call(t(2, 3), [0, 2]), IndexError, DIM_OUT_OF_RANGE)])
