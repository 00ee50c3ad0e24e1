record("stack", lambda tensors, dim=0: np.stack(tensors, dim), dtypes=MOVED, exact=True,
       samples=[call([t(2, 3), t(2, 3)]), call([t(2, 3), t(2, 3)], 1), call([t(2, 3), t(2, 3)], -1), call([t(), t()]),
                call([t(0), t(0)]), call([t(4, 3, layout="transposed"), t(4, 3)], 1), call([t(3, dtype=int32), t(3)])],
       errors=[error(call([t(2), t(3)]), ShapeError, "equal size"), error(call([]), ValueError, "non-empty"),
               error(call([t(2), t(2)], 2), IndexError, DIM_OUT_OF_RANGE)])
