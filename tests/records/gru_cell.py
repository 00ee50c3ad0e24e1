def step(x, h, w_ih, w_hh, b_ih=None, b_hh=None):
    return gru_steps((x @ w_ih.T + (0 if b_ih is None else b_ih))[None], w_hh, b_hh, h, False)[0][0]


record("gru_cell", step, dtypes=FLOATS, loose=30, rounds=6, threads=False, result="same",
       samples=[call(t(3, 5, **U), t(3, 4, **U), t(12, 5, **U), t(12, 4, **U), t(12, **U), t(12, **U)),
                call(t(3, 5, **U), t(3, 4, **U), t(12, 5, **U), t(12, 4, **U)), call(t(5, **U), t(4, **U), t(12, 5, **U), t(12, 4, **U), t(12, **U), t(12, **U))],
       gradient=[call(t(2, 3, **U), t(2, 2, **U), t(6, 3, **U), t(6, 2, **U), t(6, **U), t(6, **U))],
       errors=[error(call(t(3, 5), t(3, 4), t(12, 6), t(12, 4)), ShapeError, "do not fit")])
