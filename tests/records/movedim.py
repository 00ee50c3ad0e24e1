record("movedim", lambda x, source, destination: np.moveaxis(x, source, destination), dtypes=MOVED, exact=True,
       aliases=True,
       samples=[call(t(2, 3, 4), 0, 2), call(t(2, 3, 4), [0, 1], [-1, 0]),
                call(t(2, 3, 4, layout="transposed"), [2], [0]), call(t(2, 0, 4), -1, 0)],
       errors=[error(call(t(2, 3), [0, 1], [0]), ShapeError, "movedim"),
               error(call(t(2, 3), [0, 0], [0, 1]), ValueError, "movedim")])
