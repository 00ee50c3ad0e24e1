record("var_mean", lambda x, *a, **k: (variance(np.var)(x, *a, **k), mean_like_variance(x, *a, **k)), dtypes=FLOATS,
       loose=8,
       samples=[call(t(4, 6)), call(t(4, 6), [1]), call(t(4, 6), [0], True, True),
                call(t(3, 4, 5, layout="strided"), [0, 2]), call(t(3, 4, 5), [1], correction=0)],
       gradient_extra=[call(t(4, 6), False)])
