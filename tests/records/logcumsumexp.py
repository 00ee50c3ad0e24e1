record("logcumsumexp", along(lambda x, dim: np.logaddexp.accumulate(x, dim)), dtypes=FLOATS, loose=8, rounds=2,
       samples=[call(t(4, 6), 1), call(t(4, 6), 0), call(t(), 0), call(t(3, 4, 5, layout="strided"), -2),
                call(t(300, low=-90, high=90), 0), call(t(0, 3), 1)])
