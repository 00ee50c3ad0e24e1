record("select", lambda x, dim, index: np.take(x, index, dim), dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(3, 4), 0, 1), call(t(3, 4), 1, -1), call(t(5), 0, 2),
                call(t(2, 3, 4, layout="transposed"), 1, 2), call(t(0, 3), 1, 2)],
       errors=[error(call(t(3, 4), 0, 3), IndexError, "out of range"),
               error(call(t(3, 4), 2, 0), IndexError, DIM_OUT_OF_RANGE), error(call(t(), 0, 0), IndexError, "select")])
