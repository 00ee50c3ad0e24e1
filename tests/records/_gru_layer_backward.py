rng = np.random.default_rng(5)


def drawn(*shape):
    return rng.integers(-8, 8, shape) / 8.0


def saved_call(steps, batch, hidden, reverse):
    x, w, b, h = drawn(steps, batch, 3 * hidden), drawn(3 * hidden, hidden), drawn(3 * hidden), drawn(batch, hidden)
    made = gru_steps(x, w, b, h, reverse)
    return call(v(drawn(*made[0].shape)), v(x), v(w), v(b), v(h), reverse, *map(v, made))


def slopes(g, x, w, b, h, reverse, *saved):
    return numerical_gradients(lambda *a: gru_steps(*a, reverse)[:1], (g,), (x, w, b, h), (0, 1, 2, 3))


record("_gru_layer_backward", slopes, dtypes=[float32], loose=100, rounds=3, threads=False, result=("same",) * 4,
       samples=[saved_call(3, 2, 3, False), saved_call(3, 2, 2, True), saved_call(2, 1, 17, False)],
       errors=[error(call(t(3, 2, 3), t(3, 2, 6), t(6, 2), None, t(2, 2), False, t(3, 2, 2), t(3, 2, 8)), ShapeError, "output's shape")])
