record("inner", np.inner, dtypes=FLOATS + COMPLEX, loose=60,
       samples=[call(t(5, **U), t(5, **U)), call(t(2, 3, 5, **U), t(4, 5, **U)), call(t(), t(3)),
                call(t(3, 5, layout="transposed", **U), t(5, **U))],
       errors=[error(call(t(3), t(4)), ShapeError, "inner")])
