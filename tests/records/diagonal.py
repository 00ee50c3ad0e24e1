record("diagonal", lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2), dtypes=MOVED, exact=True,
       aliases=True,
       samples=[call(t(4, 4)), call(t(3, 5), 1), call(t(5, 3), -2), call(t(3, 4, 5), 0, -1, 0), call(t(3, 4), 7),
                call(t(4, 4, layout="strided"), 1)],
       errors=[error(call(t(3, 4), 0, 1, 1), ValueError, "diagonal"), error(call(t(3)), IndexError, DIM_OUT_OF_RANGE)])
