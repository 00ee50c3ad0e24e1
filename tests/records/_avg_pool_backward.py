def spread_gradients(g, sizes, kernel, stride, padding, count_padding, divisor):
    """Means are linear: what one entry of the input does to all of them is the result for a tensor of zeros with a one."""
    rank = len(sizes) - 2
    out = np.zeros(sizes)
    for at in np.ndindex(*sizes[2:]):
        one = np.zeros((1, 1, *sizes[2:]))
        one[(0, 0, *at)] = 1
        made = (avg_pool(rank)(one, kernel, stride, padding, False, count_padding, divisor) if kernel
                else adaptive_avg_pool(rank)(one, g.shape[2:]))
        out[(slice(None), slice(None), *at)] = (g * made).sum(tuple(range(2, g.ndim)))
    return out


record("_avg_pool_backward", spread_gradients, dtypes=FLOATS, loose=16, result="same",
       samples=[call(t(2, 3, 3, 2), [2, 3, 6, 5], [2, 2], [2, 2], [0, 0], True, None), call(t(2, 3, 4, 3), [2, 3, 6, 5], [], [], [], False, None),
                call(t(1, 3, 5), [1, 3, 9], [3], [2], [1], False, None),
                call(t(2, 3, 3, 2, layout="channels_last"), [2, 3, 6, 5], [2, 2], [2, 2], [0, 0], True, None)],
       errors=[error(call(t(3, 6), [2, 2], [2], [1], [0], True, None), ShapeError, "gradient")])
