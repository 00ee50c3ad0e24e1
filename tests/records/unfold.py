record("unfold",
       lambda x, dimension, size, step:
         np.lib.stride_tricks.sliding_window_view(x, size, dimension)[(slice(None),) * dimension + (slice(None, None,
         step),)], dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(8), 0, 3, 2), call(t(4, 9), 1, 4, 3), call(t(6, 5), 0, 2, 1),
                call(t(5, 6, layout="transposed"), 1, 6, 1)],
       errors=[error(call(t(4), 0, 5, 1), ValueError, "unfold"), error(call(t(4), 0, 2, 0), ValueError, "step")])
