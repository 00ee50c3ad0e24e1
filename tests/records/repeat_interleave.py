record("repeat_interleave",
       lambda x, repeats=None, dim=None, output_size=None:
         np.repeat(np.arange(x.size), x) if repeats is None else np.repeat(x, repeats, dim), dtypes=MOVED, exact=True,
       meta=False,
       samples=[call(t(3, 4), 2), call(t(3, 4), 3, 1), call(t(3, 4), index([1, 0, 2]), 0), call(t(3), index([2])),
                call(t(3, 4, layout="transposed"), 2, 0)],
       errors=[error(call(t(3), index([1, 2])), ShapeError, "repeat"), error(call(t(3), -1), ValueError, "repeat")])
