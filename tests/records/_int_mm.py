record("_int_mm", lambda a, b: a.astype("i4") @ b.astype("i4"), dtypes=[int8], result=int32,
       samples=[call(t(20, 16, low=-127, high=127), t(16, 24, low=-127, high=127)),
                call(t(33, 70, low=-127, high=127, layout="transposed"), t(70, 40, low=-127, high=127)),
                call(t(17, 300, low=-127, high=127), t(300, 8, low=-127, high=127))],
       errors=[error(call(t(3, 4), t(4, 3)), DTypeError, "int8"),
               error(call(t(3, 4, dtype=int8), t(5, 3, dtype=int8)), ShapeError, "_int_mm")])
