def index_put(x, indices, values, accumulate=False):
    out = np.array(x)
    np.add.at(out, fancy(indices), values) if accumulate else out.__setitem__(fancy(indices), values)
    return out


record("index_put", index_put, dtypes=NUMBERS, result="same", loose=4, cancels=True, rounds=4, meta=False,
       samples=[call(t(5, 4), [shuffled(3, dim=0, size=5)], t(3, 4)),
                call(t(5, 4), [None, shuffled(2, dim=0, size=4)], t(2)),
                call(t(5, 4), [shuffled(3, dim=0, size=5), ints(3, high=3)], t()), call(t(5, 4), [mask(5, 4)], t()),
                call(t(5, 4), [ints(9, high=4)], t(9, 4), True), call(t(6), [ints(40, high=5)], t(40), True),
                call(t(5, 4, 3, layout="transposed"), [shuffled(2, dim=0, size=5), None, ints(2, high=2)], t(2, 4))],
       errors=[error(call(t(5, 4), [index([5])], t()), IndexError, "out of bounds"),
               error(call(t(5, 4), [index([0, 1])], t(3, 4)), ShapeError, "index_put"),
               error(call(t(5), [index([0])], t(dtype=float64)), DTypeError, "index_put")])
