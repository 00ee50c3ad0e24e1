def dropout_statistics(x, p, train):
    if not train or p == 0.0:
        return statistics(low=1.0, high=1.0)
    return statistics(low=0, high=1 / (1 - p) * 1.01, mean=1.0, std=(p / (1 - p)) ** 0.5, cdf=[(0.0, p)])


record("native_dropout", lambda x, p, train: x.shape, dtypes=FLOATS, result="same", random=dropout_statistics,
       samples=[call(v([1.0] * 20000), 0.5, True), call(v([1.0] * 20000), 0.25, True), call(v([1.0] * 90), 0.0, True),
                call(v([1.0] * 90), 0.5, False)],
       errors=[error(call(t(3), 1.5, True), ValueError, "dropout")],
       gradient=[call(t(4, 6), 0.5, True), call(t(5, layout="strided"), 0.25, True), call(t(4), 0.5, False),
                 call(t(4), 0.0, True)])
