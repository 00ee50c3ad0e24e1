record("add", lambda a, b, alpha=1: a | b if np.result_type(a, b) == bool else a + alpha * b, dtypes=EVERY,
       result="scalars", exact=True,
       samples=binary(scalars=[3, True],
                      extra=MIXED + [call(t(4, 5), t(5), alpha=2, only=NUMBERS), call(t(6), 2.5),
                                     call(t(6), t(6), alpha=-0.5, only=FLOATS)]),
       errors=[error(call(t(3), t(4)), ShapeError, "must match"),
               error(call(ints(3), ints(3), alpha=1.5), DTypeError, "alpha")])
