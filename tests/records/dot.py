record("dot", np.dot, dtypes=FLOATS + COMPLEX + [int64], loose=60,
       samples=[call(t(5, **U), t(5, **U)), call(t(3000, **U), t(3000, **U)), call(t(0), t(0)),
                call(t(40, layout="strided", **U), t(40, **U))],
       errors=[error(call(t(3), t(4)), ShapeError, "dot"),
               error(call(t(2, 2), t(2, 2)), ShapeError, "must be a vector"),
               error(call(t(3), t(3, dtype=float64)), DTypeError, "dtype")])
