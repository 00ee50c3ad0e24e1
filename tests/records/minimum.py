record("minimum", np.minimum, dtypes=ALL,
       samples=binary(extra=MIXED), exact=True,
       errors=[error(call(t(3), t(4)), ShapeError, "must match")])
