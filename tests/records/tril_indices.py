record("tril_indices", lambda row, col, offset=0, options=None: np.stack(np.tril_indices(row, offset, col)),
       dtypes=[float32], result=lambda *a, options=None: options.dtype if options else int64,
       samples=[call(4, 4), call(3, 5, 1), call(5, 3, -1), call(0, 3), call(3, 3, -5),
                call(4, 3, options=Options(int32))],
       errors=[error(call(-1, 3), ValueError, "tril_indices")])
