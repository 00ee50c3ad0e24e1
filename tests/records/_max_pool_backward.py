def gathered_gradients(g, places, sizes, kernel, stride, padding, dilation):
    out = np.zeros((sizes[0] * sizes[1], int(np.prod(sizes[2:]))))
    for row, (values, at) in enumerate(zip(g.reshape(len(out), -1), places.reshape(len(out), -1))):
        np.add.at(out[row], at, values)
    return out.reshape(sizes)


# Windows that all reach over the whole input: any place lies in them.
record("_max_pool_backward", gathered_gradients, dtypes=FLOATS, loose=8, result="same",
       samples=[call(t(2, 3, 2, 2), ints(2, 3, 2, 2, high=11), [2, 3, 3, 4], [6, 7], [1, 1], [2, 2], [1, 1]),
                call(t(1, 2, 5), ints(1, 2, 5, high=6), [1, 2, 7], [11], [1], [4], [1]),
                call(t(2, 3, 2, 2, layout="channels_last"), ints(2, 3, 2, 2, high=11, layout="channels_last"), [2, 3, 3, 4], [6, 7], [1, 1], [2, 2], [1, 1]),
                call(t(2, 3, 1, 1), ints(2, 3, 1, 1, high=11), [2, 3, 3, 4], [], [], [], [])],
       errors=[error(call(t(2, 3, 2, 2), ints(2, 3, 2, 3), [2, 3, 3, 4], [], [], [], []), ShapeError, "one shape"),
               error(call(t(1, 3, 2, 2), ints(1, 3, 2, 2, high=3), [2, 3, 3, 4], [], [], [], []), ShapeError, "batch and channels")])
