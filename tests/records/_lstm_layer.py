record("_lstm_layer", lstm_steps, dtypes=FLOATS, loose=30, rounds=4, result=("same", "same", "same"),
       samples=[call(t(4, 3, 8, **U), t(8, 2, **U), t(3, 2, **U), t(3, 2, **U), False), call(t(4, 3, 80, **U), t(80, 20, **U), t(3, 20, **U), t(3, 20, **U), True)],
       errors=[error(call(t(4, 3, 8), t(8, 3), t(3, 2), t(3, 2), False), ShapeError, "do not fit")])
