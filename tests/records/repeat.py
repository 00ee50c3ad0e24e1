record("repeat", lambda x, repeats: np.tile(x, repeats), dtypes=MOVED, exact=True,
       samples=[call(t(3), [2]), call(t(3), [4, 2]), call(t(2, 3), [2, 2]), call(t(), [3]), call(t(2, 3), [0, 2]),
                call(t(3, 4, layout="transposed"), [1, 2])],
       errors=[error(call(t(2, 3), [2]), ShapeError, "repeat"), error(call(t(2), [-1]), ShapeError, "repeat")])
