record("amin", reducing(lambda x, **k: np.min(x, **k)), dtypes=ALL, exact=True,
       samples=reduction(empty=False, extra=[call(t(3, 0), [0]), call(t(4, 6), [])]),
       errors=[error(call(t(0, 3), [0]), IndexError, "amin"), error(call(t(3, 4), [2]), IndexError, DIM_OUT_OF_RANGE)])
