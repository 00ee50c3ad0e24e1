record("masked_select", lambda x, mask: np.broadcast_arrays(x, mask)[0][np.broadcast_arrays(x, mask)[1]], dtypes=MOVED,
       result="same", exact=True, meta=False,
       samples=[call(t(5, 4), mask(5, 4)), call(t(5, 4), mask(4)), call(t(4), mask(5, 1)), call(t(), mask()),
                call(t(0), mask(0)), call(t(3000), mask(3000)), call(t(5, 4, layout="transposed"), mask(5, 4))],
       errors=[error(call(t(3), mask(4)), ShapeError, "must match"), error(call(t(3), ints(3)), DTypeError, "mask")])
