record("_log_softmax_backward_data", lambda g, y, dim, dtype: g - np.exp(y) * g.sum(dim, keepdims=True), dtypes=FLOATS, loose=40, rounds=2, result="promote",
       samples=[call(t(4, 6), t(4, 6, low=-1, high=0.5), 1, float32, only=[float32]), call(t(4, 6), t(4, 6, low=-1, high=0.5), -1, float64, only=[float64]),
                call(t(3, 40), t(3, 40, low=-1, high=0.5), 1, bfloat16, only=[bfloat16]), call(t(3, 40), t(3, 40, low=-1, high=0.5), 1, float16, only=[float16]),
                call(t(3, 4, 5), t(3, 4, 5, low=-1, high=0.5), 1, float32, only=[float32]),
                call(t(3, 70, layout="strided"), t(3, 70, low=-1, high=0.5), 1, float32, only=[float32])],
       errors=[error(call(t(4, 6), t(4, 5), 1, float32), ShapeError, "must have the shape")])
