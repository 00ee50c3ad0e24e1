record("_gru_layer", gru_steps, dtypes=FLOATS, loose=30, rounds=4, result=("same", "same"),
       samples=[call(t(4, 3, 6, **U), t(6, 2, **U), t(6, **U), t(3, 2, **U), False), call(t(4, 3, 60, **U), t(60, 20, **U), None, t(3, 20, **U), True)],
       errors=[error(call(t(4, 3, 6), t(6, 3), None, t(3, 2), False), ShapeError, "do not fit")])
