record("linear", lambda x, weight, bias=None: x @ weight.T + (0 if bias is None else bias), dtypes=FLOATS, loose=60,
       threads=False,  # oneDNN orders the sums of float products
       samples=[call(t(3, 5, **U), t(4, 5, **U), t(4, **U)), call(t(3, 5, **U), t(4, 5, **U)),
                call(t(2, 3, 5, **U), t(4, 5, **U), t(4, **U)), call(t(5, **U), t(4, 5, **U)), call(t(0, 5), t(4, 5)),
                call(t(40, 300, **U), t(50, 300, **U), t(50, **U)),
                call(t(6, 5, layout="transposed", **U), t(4, 5, layout="strided", **U), t(4, **U))],
       errors=[error(call(t(3, 4), t(2, 5)), ShapeError, "linear"),
               error(call(t(3, 4), t(2, 4), t(3)), ShapeError, "must match")])
