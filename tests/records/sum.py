record("sum", reducing(lambda x, **k: np.sum(x, **k)), dtypes=EVERY, loose=8, cancels=True,
       result=lambda x, *a, dtype=None, **k: dtype or (int64 if x.dtype.category < 2 else x.dtype),
       samples=reduction(extra=[call(t(4, 6), [0], dtype=float64, only=FLOATS + [int32]),
                                call(t(40000, low=0, high=1), only=FLOATS), call(t(3, 4), [])]),
       errors=[error(call(t(3, 4), [2]), IndexError, DIM_OUT_OF_RANGE),
               error(call(t(3, 4), [0, 0]), ValueError, "appears multiple times")],
       gradient_extra=[call(t(3, 5), [1], dtype=float32), call(t(3, 5), dtype=float32)])
