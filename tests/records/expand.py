record("expand",
       lambda x, size, implicit=False:
         np.broadcast_to(x, [x.shape[i - len(size)] if s == -1 else s for i, s in enumerate(size)]), dtypes=MOVED,
       exact=True, aliases=True,
       samples=[call(t(3, 1), [3, 4]), call(t(3, 1), [2, -1, 5]), call(t(), [2, 3]), call(t(1, 0), [4, 0]),
                call(t(3, 1, layout="strided"), [3, 3])],
       errors=[error(call(t(3, 2), [3, 4]), ShapeError, "expand"), error(call(t(3, 2), [2]), ShapeError, "expand")])
