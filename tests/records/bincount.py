record("bincount", lambda x, weights=None, minlength=0: np.bincount(x, weights, minlength), dtypes=[float32, float64],
       meta=False, loose=4,
       result=lambda x, weights=None, minlength=0:
                "int64" if weights is None else weights.dtype if weights.dtype is float32 else "float64",
       samples=[call(ints(40, high=9)), call(ints(40, high=9), None, 15), call(ints(40, high=9), t(40)), call(ints(0)),
                call(ints(7, high=3, dtype=uint8)), call(ints(900, high=50, layout="strided"))],
       errors=[error(call(index([1, -1])), ValueError, "bincount"), error(call(ints(2, 3)), ShapeError, "bincount"),
               error(call(ints(3), t(4)), ShapeError, "bincount")])
