record("atleast_1d", lambda x: tuple(np.atleast_1d(*x)) if isinstance(x, list) else np.atleast_1d(x), dtypes=MOVED,
       exact=True,
       samples=[call(t()), call(t(3)), call(t(2, 3)), call([t(), t(2)])])
