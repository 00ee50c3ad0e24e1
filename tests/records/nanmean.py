record("nanmean", reducing(lambda x, **k: np.nanmean(x, **k)), dtypes=FLOATS, loose=8, rounds=2,
       samples=reduction(extra=[call(v([1.0, np.nan, 3.0]))]))
