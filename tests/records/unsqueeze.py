record("unsqueeze", lambda x, dim: np.expand_dims(x, dim), dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(2, 3), 0), call(t(2, 3), 2), call(t(2, 3), -2), call(t(), 0), call(t(0), -1),
                call(t(3, 4, layout="transposed"), 1)],
       errors=[error(call(t(2, 3), 3), IndexError, DIM_OUT_OF_RANGE)])
