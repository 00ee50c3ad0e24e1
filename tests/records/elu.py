record("elu",
       lambda x, alpha=1, scale=1, input_scale=1:
         np.where(x > 0, x * scale, alpha * scale * np.expm1(np.minimum(x, 0) * input_scale)), dtypes=FLOATS,
       samples=unary(extra=[call(t(5, 6), 0.5), call(t(5, 6), 1.5, 2.0, 0.5)]))
