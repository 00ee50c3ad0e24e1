record("mv", np.matmul, dtypes=FLOATS + COMPLEX + [int64], loose=60,
       samples=[call(t(3, 5, **U), t(5, **U)), call(t(60, 300, **U), t(300, **U)),
                call(t(60, 30, layout="transposed", **U), t(30, layout="strided", **U)), call(t(3, 0), t(0)),
                call(t(0, 3), t(3))],
       errors=[error(call(t(3, 4), t(5)), ShapeError, "mv"), error(call(t(3), t(3)), ShapeError, "mv")])
