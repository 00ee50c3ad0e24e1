def narrow(x, dim, start, length):
    start = int(start) + (x.shape[dim] if start < 0 else 0)
    return np.take(x, range(start, start + length), dim)


record("narrow", narrow, dtypes=MOVED, exact=True, aliases=True, meta=False,
       samples=[call(t(5, 4), 0, 1, 3), call(t(5, 4), 1, -3, 2), call(t(5, 4), 0, 5, 0), call(t(5, 4), 0, index(2), 2),
                call(t(3, 4, 5, layout="transposed"), -1, 2, 3)],
       errors=[error(call(t(5, 4), 0, 3, 3), IndexError, "exceeds dimension size"),
               error(call(t(5, 4), 0, 0, -1), ValueError, "narrow"),
               error(call(t(5), 0, 6, 0), IndexError, "out of range")])
