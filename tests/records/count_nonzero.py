record("count_nonzero", lambda x, dim=None: np.asarray(np.count_nonzero(x, axis=axes(dim))), dtypes=ALL, result="long",
       samples=[call(t(4, 6, integer=True)), call(t(integer=True)), call(t(4, 6, integer=True), 1),
                call(t(3, 4, 5, integer=True, layout="strided"), [0, 2]), call(t(0)), call(t(0, 3), 0)])
