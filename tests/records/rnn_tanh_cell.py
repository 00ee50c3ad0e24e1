def step(x, h, w_ih, w_hh, b_ih=None, b_hh=None):
    return np.tanh(x @ w_ih.T + (0 if b_ih is None else b_ih) + h @ w_hh.T + (0 if b_hh is None else b_hh))


record("rnn_tanh_cell", step, dtypes=FLOATS, loose=30, rounds=4, threads=False, result="same",
       samples=[call(t(3, 5, **U), t(3, 4, **U), t(4, 5, **U), t(4, 4, **U), t(4, **U), t(4, **U)), call(t(5, **U), t(4, **U), t(4, 5, **U), t(4, 4, **U))],
       errors=[error(call(t(3, 5), t(3, 4), t(4, 6), t(4, 4)), ShapeError, "do not fit")])
