record("t", lambda x: x.T, dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(3, 4)), call(t(5)), call(t()), call(t(4, 3, layout="strided"))],
       errors=[error(call(t(2, 3, 4)), ShapeError, "<= 2 dimensions")])
