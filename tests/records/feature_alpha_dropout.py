def affine_statistics(p):
    bound = 1.7580993408473766
    a = ((1 - p) * (1 + p * bound**2)) ** -0.5
    kept, dropped = a + a * p * bound, -bound * a + a * p * bound
    return statistics(low=dropped - 0.02, high=kept + 0.02, mean=(1 - p) * kept + p * dropped, std=(p * (1 - p)) ** 0.5 * (kept - dropped))


def dropout_statistics(x, p, train):
    if not train or p == 0.0:
        return statistics(low=1.0, high=1.0)
    return affine_statistics(p)


record("feature_alpha_dropout", lambda x, p, train: x.shape, dtypes=FLOATS, result="same", random=dropout_statistics,
       samples=[call(v([[1.0] * 200] * 100), 0.5, True), call(v([[1.0] * 200] * 100), 0.25, True), call(v([[1.0] * 9] * 10), 0.5, False),
                call(v([[1.0] * 9] * 10), 0.0, True)],
       errors=[error(call(t(3, 4), 1.5, True), ValueError, "feature_alpha_dropout")],
       gradient=[call(t(4, 6), 0.5, True), call(t(4, 5), 0.5, False), call(t(4, 3), 0.0, True)])
