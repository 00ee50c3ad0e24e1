record("rot90", lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims), dtypes=MOVED, exact=True,
       samples=[call(t(3, 4)), call(t(3, 4), 2), call(t(3, 4), -1), call(t(3, 4), 4), call(t(2, 3, 4), 1, [1, 2]),
                call(t(2, 3, 4), 3, [2, 0])],
       errors=[error(call(t(3)), ShapeError, "rot90"), error(call(t(3, 4), 1, [0, 0]), ValueError, "rot90")])
