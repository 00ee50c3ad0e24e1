def rows_by_index(g, indices, rows, padding_idx, scale):
    at = indices.reshape(-1)
    parts = np.where((at == padding_idx)[:, None], 0, g.reshape(len(at), g.shape[-1]))
    if scale:
        parts = parts / np.bincount(at, minlength=rows)[at][:, None]
    out = np.zeros((rows, g.shape[-1]))
    np.add.at(out, at, parts)
    return out


record("embedding_dense_backward", rows_by_index, dtypes=FLOATS, loose=16, result="same",
       samples=[call(t(7, 4), ints(7, high=4), 5, -1, False), call(t(2, 3, 4), ints(2, 3, high=4), 5, 2, False),
                call(t(9, 3), ints(9, high=3), 4, -1, True), call(t(9, 3), ints(9, high=3, dtype=int32), 4, 0, True),
                call(t(6, 5, layout="transposed"), ints(6, high=9), 10, -1, False), call(t(300, 40), ints(300, high=99), 100, 3, False),
                call(t(0, 4), ints(0), 5, -1, False)],
       errors=[error(call(t(3, 4), index([0, 1, 5]), 5, -1, False), IndexError, "out of range", meta=False),
               error(call(t(3, 4), ints(2), 5, -1, False), ShapeError, "does not fit")])
