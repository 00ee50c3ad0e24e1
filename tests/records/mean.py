record("mean", reducing(lambda x, **k: np.mean(x, **k)), dtypes=FLOATS + COMPLEX, loose=4, cancels=True,
       samples=reduction(extra=[call(t(4, 6, dtype=int32), [1], dtype=float32, only=[float32]),
                                call(t(40000, low=0, high=1), only=FLOATS)]),
       errors=[error(call(ints(3)), DTypeError, "mean"), error(call(t(3, 4), [2]), IndexError, DIM_OUT_OF_RANGE)])
