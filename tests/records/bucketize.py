record("bucketize",
       lambda x, boundaries, out_int32=False, right=False: np.searchsorted(boundaries, x, "right" if right else "left"),
       dtypes=NUMBERS, result=lambda *a, out_int32=False, **k: int32 if out_int32 else int64,
       samples=[call(t(2, 5), ascending(9)), call(t(2, 5), ascending(9), right=True), call(3, ascending(9)),
                call(t(4, 5, layout="transposed"), ascending(9), out_int32=True),
                call(v([2, 0, 4]), v([1, 2, 2, 3]), right=True)],
       errors=[error(call(t(3), t(2, 2)), ShapeError, "bucketize")])
