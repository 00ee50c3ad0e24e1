def slopes(g, x, shape, weight, eps):
    weight = np.ones(shape) if weight is None else weight
    bias = np.zeros(shape)
    return numerical_gradients(lambda a, w, b: layer_norm(a, shape, w, b, eps), (g,), (x, weight, bias), (0, 1, 2))


record("_layer_norm_backward", slopes, dtypes=[float32, bfloat16], loose=60, rounds=3, result=("same", float32, float32),
       samples=[call(t(4, 6), t(4, 6), [6], None, 1e-5), call(t(4, 6), t(4, 6), [6], t(6), 1e-3), call(t(2, 2, 3), t(2, 2, 3), [2, 3], t(2, 3), 1e-5),
                call(t(3, 40), t(3, 40), [40], t(40), 1e-5), call(t(4, 6, layout="transposed"), t(4, 6, layout="strided"), [6], t(6), 1e-5)],
       gradient=[call(t(3, 4), t(3, 4), [4], t(4), 1e-3), call(t(3, 4), t(3, 4), [4], None, 1e-3)],
       errors=[error(call(t(4, 6), t(4, 6), [5], None, 1e-5), ShapeError, "normalized_shape")])
