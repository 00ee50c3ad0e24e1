record("unbind", lambda x, dim=0: [np.take(x, i, dim) for i in range(x.shape[dim])], dtypes=MOVED, exact=True,
       aliases=True,
       samples=[call(t(3, 4)), call(t(3, 4), 1), call(t(5)), call(t(2, 3, 4, layout="transposed"), -1)],
       errors=[error(call(t(3), 1), IndexError, DIM_OUT_OF_RANGE)])
