def gated(x, dim=-1):
    a, b = np.split(x, 2, dim)
    return a * sigmoid_of(b)


record("glu", gated, dtypes=FLOATS, loose=4, rounds=2,
       samples=[call(t(4, 6)), call(t(4, 6), 0), call(t(2, 4, 5), 1), call(t(6)), call(t(4, 6, layout="transposed"), 1)],
       errors=[error(call(t(4, 5)), ShapeError, "must be even"), error(call(t()), ShapeError, "0-dimensional")])
