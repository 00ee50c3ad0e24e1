record("sub", lambda a, b, alpha=1: a - alpha * b, dtypes=NUMBERS + COMPLEX, result="scalars", exact=True,
       samples=binary(scalars=[3], extra=MIXED[:2] + [call(t(4, 5), t(5), alpha=2), call(t(6), 2.5)]),
       errors=[error(call(t(3), t(4)), ShapeError, "must match"), error(call(mask(3), mask(3)), DTypeError, "bool")])
