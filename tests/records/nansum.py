record("nansum", reducing(lambda x, **k: np.nansum(x, **k)), dtypes=FLOATS, loose=8, cancels=True,
       samples=reduction(extra=[call(v([1.0, np.nan, 3.0]))]))
