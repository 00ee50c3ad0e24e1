record("nonzero", lambda x: np.argwhere(x) if x.ndim else np.zeros((int(x != 0), 0)), dtypes=ALL, result="long",
       meta=False,
       samples=[call(t(5, 4, integer=True, low=0, high=2)), call(t(9, integer=True, low=0, high=1)),
                call(t(integer=True, low=1)), call(v(0)), call(t(0, 3)),
                call(t(3, 4, 5, integer=True, low=0, high=1, layout="strided")),
                call(t(3000, integer=True, low=0, high=1))])
