record("transpose", lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1) if x.ndim else x, dtypes=MOVED, exact=True,
       aliases=True,
       samples=[call(t(2, 3, 4), 0, 2), call(t(3, 4), -1, 0), call(t(3, 3), 0, 1), call(t(), 0, -1),
                call(t(0, 3), 0, 1), call(t(3, 4, layout="strided"), 0, 1)],
       errors=[error(call(t(2, 3), 0, 2), IndexError, DIM_OUT_OF_RANGE)])
