record("vdot", np.vdot, dtypes=FLOATS + COMPLEX, loose=60,
       samples=[call(t(5, **U), t(5, **U)), call(t(900, **U), t(900, **U)), call(t(0), t(0)),
                call(t(40, layout="strided", **U), t(40, **U))],
       errors=[error(call(t(3), t(4)), ShapeError, "dot")])
