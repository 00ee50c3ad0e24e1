record("alias", lambda x: x, dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(3, 4)), call(t()), call(t(0, 3)), call(t(3, 4, layout="strided"))])
