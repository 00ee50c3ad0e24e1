record("layer_norm", layer_norm, dtypes=FLOATS, loose=30,
       samples=[call(t(4, 6), [6]), call(t(4, 6), [6], t(6), t(6)), call(t(4, 6), [6], t(6)),
                call(t(2, 3, 4), [3, 4], t(3, 4), t(3, 4), 1e-3), call(t(0, 5), [5]),
                call(t(5, 1000, low=99, high=101), [1000], loose=50),
                call(t(4, 6, layout="transposed"), [6], t(6), t(6)), call(t(6), [6]),
                call(t(3, 700), [700], t(700), t(700))],
       errors=[error(call(t(4, 6), [5]), ShapeError, "normalized_shape"),
               error(call(t(4, 6), [6], t(5)), ShapeError, "weight"),
               error(call(t(4), []), ValueError, "normalized_shape")])
