record("atleast_2d", lambda x: tuple(np.atleast_2d(*x)) if isinstance(x, list) else np.atleast_2d(x), dtypes=MOVED,
       exact=True,
       samples=[call(t()), call(t(3)), call(t(2, 3)), call([t(), t(2)])])
