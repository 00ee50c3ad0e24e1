record("hardtanh", lambda x, min_val=-1, max_val=1: np.clip(x, min_val, max_val), dtypes=FLOATS, exact=True,
       samples=unary(extra=[call(t(5, 6), -2, 0.5)]))
