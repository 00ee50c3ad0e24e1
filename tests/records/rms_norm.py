record("rms_norm", rms_norm, dtypes=FLOATS, loose=30, sees_dtype=True,
       samples=[call(t(4, 6), [6], None, 1e-5), call(t(4, 6), [6], t(6), 1e-5), call(t(2, 3, 4), [3, 4], t(3, 4), 1e-3),
                call(t(5, 1000), [1000], t(1000), 1e-6), call(t(4, 6, layout="transposed"), [6], t(6), 1e-5),
                call(t(0, 5), [5], None, 1e-5), call(t(4, 6), [6])],
       errors=[error(call(t(4, 6), [5]), ShapeError, "normalized_shape")])
