rng = np.random.default_rng(3)


def drawn(*shape):
    return rng.integers(-8, 8, shape) / 8.0


def saved_call(steps, batch, hidden, reverse):
    x, w, h, c = drawn(steps, batch, 4 * hidden), drawn(4 * hidden, hidden), drawn(batch, hidden), drawn(batch, hidden)
    made = lstm_steps(x, w, h, c, reverse)
    return call(v(drawn(*made[0].shape)), v(drawn(*made[1].shape)), v(x), v(w), v(h), v(c), reverse, *map(v, made))


def slopes(gh, gc, x, w, h, c, reverse, *saved):
    return numerical_gradients(lambda *a: lstm_steps(*a, reverse)[:2], (gh, gc), (x, w, h, c), (0, 1, 2, 3))


record("_lstm_layer_backward", slopes, dtypes=[float32], loose=100, rounds=3, threads=False, result=("same",) * 4,
       samples=[saved_call(3, 2, 3, False), saved_call(3, 2, 2, True), saved_call(2, 1, 17, False)],
       errors=[error(call(t(3, 2, 3), t(3, 2, 2), t(3, 2, 8), t(8, 2), t(2, 2), t(2, 2), False, t(3, 2, 2), t(3, 2, 2), t(3, 2, 8)), ShapeError, "output's shape")])
