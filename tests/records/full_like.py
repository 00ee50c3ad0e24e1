record("full_like", lambda x, fill_value, options=None: np.full(x.shape, fill_value), dtypes=ALL, result="same",
       exact=True,
       samples=[call(t(3, 4), 2), call(t(), 1), call(t(0), 1), call(t(3, 4, layout="transposed"), 3),
                call(t(3), 2.5, Options(float64))])
