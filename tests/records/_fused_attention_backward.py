rng = np.random.default_rng(11)


def drawn(*shape):
    return rng.integers(-12, 12, shape) / 8.0


def saved_call(q, k, v_, mask_, causal, scale):
    """A call with the output and sums that the forward pass would have saved, and the rounding of float."""
    keys = np.repeat(k, q.shape[1] // k.shape[1], 1)
    s = np.einsum("...le,...se->...ls", q, keys) * scale
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    if mask_ is not None:
        s = s + mask_
    out = attention(q, k, v_, mask_, 0.0, causal, scale)
    g = drawn(*out.shape)
    return call(v(g), v(q), v(k), v(v_), None if mask_ is None else v(mask_), v(out), v(scipy.special.logsumexp(s, axis=-1), dtype=float32),
                index(np.zeros(0, np.int64)), 0.0, causal, scale)


def slopes(g, q, k, v_, mask_, out, sums, state, dropout, causal, scale):
    return numerical_gradients(lambda a, b, c: attention(a, b, c, mask_, 0.0, causal, scale), (g,), (q, k, v_), (0, 1, 2))


record("_fused_attention_backward", slopes, dtypes=[float32], loose=60, rounds=3, result=("same", "same", "same"),
       samples=[saved_call(drawn(1, 2, 3, 4), drawn(1, 2, 5, 4), drawn(1, 2, 5, 3), None, False, 0.5),
                saved_call(drawn(1, 4, 3, 2), drawn(1, 2, 3, 2), drawn(1, 2, 3, 2), None, True, 0.7),
                saved_call(drawn(1, 1, 3, 2), drawn(1, 1, 4, 2), drawn(1, 1, 4, 2), drawn(1, 1, 3, 4), False, 0.7)],
       errors=[error(call(t(1, 2, 3, 3), t(1, 2, 3, 4), t(1, 2, 5, 4), t(1, 2, 5, 3), None, t(1, 2, 3, 4), t(1, 2, 3), index(np.zeros(0, np.int64)), 0.0, False,
                          0.5), ShapeError, "output's shape")])
