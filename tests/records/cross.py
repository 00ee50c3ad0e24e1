record("cross", lambda a, b, dim=None: cross(a, b, dim), dtypes=NUMBERS, loose=4, rounds=4,
       samples=[call(t(3, **U), t(3, **U)), call(t(4, 3, **U), t(4, 3, **U), 1), call(t(3, 5, **U), t(3, 5, **U)),
                call(t(4, 3, layout="transposed", **U), t(4, 3, **U), -1), call(t(1, 3, **U), t(4, 3, **U), 1)],
       errors=[error(call(t(4), t(4)), ShapeError, "cross"), error(call(t(2, 4), t(2, 4), 1), ShapeError, "cross")])
