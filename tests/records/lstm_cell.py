def step(x, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    sums = x @ w_ih.T + (0 if b_ih is None else b_ih) + (0 if b_hh is None else b_hh)
    h, c, _ = lstm_steps(sums[None], w_hh, hx[0], hx[1], False)
    return h[0], c[0]


record("lstm_cell", step, dtypes=FLOATS, loose=30, rounds=6, threads=False, result=lambda *args, **kwargs: args[0].dtype,
       samples=[call(t(3, 5, **U), [t(3, 4, **U), t(3, 4, **U)], t(16, 5, **U), t(16, 4, **U), t(16, **U), t(16, **U)),
                call(t(3, 5, **U), [t(3, 4, **U), t(3, 4, **U)], t(16, 5, **U), t(16, 4, **U)),
                call(t(5, **U), [t(4, **U), t(4, **U)], t(16, 5, **U), t(16, 4, **U), t(16, **U), t(16, **U))],
       gradient=[call(t(2, 3, **U), [t(2, 2, **U), t(2, 2, **U)], t(8, 3, **U), t(8, 2, **U), t(8, **U), t(8, **U))],
       errors=[error(call(t(3, 5), [t(3, 4), t(3, 4)], t(16, 6), t(16, 4)), ShapeError, "do not fit")])
