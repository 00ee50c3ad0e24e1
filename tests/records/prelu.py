record("prelu", lambda x, w: np.where(x > 0, x, x * (w if w.size == 1 else _channels(w, x))), dtypes=FLOATS,
       samples=[call(t(4, 3, nonzero=True), t(1)), call(t(4, 3, nonzero=True), t(3)), call(t(2, 3, 4, 5, nonzero=True), t(3)), call(t(5, nonzero=True), t())],
       errors=[error(call(t(4, 3), t(4)), ShapeError, "Mismatch of parameter numbers"), error(call(t(4, 3), t(3, 1)), ShapeError, "scalar or 1D")])
