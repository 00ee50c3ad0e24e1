record("chunk", lambda x, chunks, dim=0: split_every(x, -(-x.shape[dim] // chunks), dim), dtypes=MOVED, exact=True,
       aliases=True,
       samples=[call(t(7, 4), 3), call(t(7, 4), 2, 1), call(t(5), 8), call(t(6, 5, layout="transposed"), 2, -1)],
       errors=[error(call(t(3), 0), ValueError, "chunk"), error(call(t(3), 2, 1), IndexError, DIM_OUT_OF_RANGE)])
