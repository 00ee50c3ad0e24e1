def with_sums(q, k, v, mask, dropout, causal, scale):
    keys = np.repeat(k, q.shape[1] // k.shape[1], 1)
    s = np.einsum("...le,...se->...ls", q, keys) * scale
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    return attention(q, k, v, mask, dropout, causal, scale), scipy.special.logsumexp(s, axis=-1), np.zeros(0, np.int64)


SUMS = lambda *args, **kwargs: float64 if args[0].dtype is float64 else float32  # noqa: E731
record("_fused_attention", with_sums, dtypes=FLOATS, loose=30, rounds=4, result=("same", SUMS, "long"),
       samples=[call(t(2, 3, 5, 8), t(2, 3, 7, 8), t(2, 3, 7, 6), None, 0.0, False, 0.5), call(t(2, 4, 6, 8), t(2, 2, 6, 8), t(2, 2, 6, 8), None, 0.0, True, 0.3),
                call(t(1, 2, 70, 8), t(1, 2, 150, 8), t(1, 2, 150, 8), held(t(1, 2, 70, 150)), 0.0, False, 0.3)],
       gradient=[call(t(1, 2, 3, 4), t(1, 1, 4, 4), t(1, 1, 4, 3), None, 0.0, False, 0.5), call(t(1, 1, 4, 3), t(1, 1, 4, 3), t(1, 1, 4, 3), None, 0.0, True, 0.3)],
       errors=[error(call(t(2, 3, 5, 8), t(2, 2, 7, 8), t(2, 2, 7, 6), None, 0.0, False, 0.5), ShapeError, "divide"),
               error(call(t(2, 3, 5, 8), t(2, 3, 7, 8), t(2, 3, 7, 6), None, 1.0, False, 0.5), ValueError, "dropout")])
