record("mul", lambda a, b: a * b, dtypes=EVERY, result="scalars",
       samples=binary(scalars=[3, 2.5, True], extra=MIXED),
       errors=[error(call(t(2, 3), t(2, 4)), ShapeError, "must match")])
