record("atleast_3d", lambda x: tuple(np.atleast_3d(*x)) if isinstance(x, list) else np.atleast_3d(x), dtypes=MOVED,
       exact=True,
       samples=[call(t()), call(t(3)), call(t(2, 3)), call(t(2, 3, 4)), call([t(), t(2)])])
