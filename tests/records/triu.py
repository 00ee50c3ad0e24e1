record("triu", lambda x, diagonal=0: np.triu(x, diagonal), dtypes=MOVED, exact=True,
       samples=[call(t(4, 4)), call(t(3, 5), 1), call(t(5, 3), -1), call(t(2, 3, 4)), call(t(0, 3)),
                call(t(4, 5, layout="transposed")), call(t(3, 3), 9), call(t(3, 3), -9),
                call(v([[np.nan, np.inf], [1.0, np.nan]]), only=FLOATS)],
       errors=[error(call(t(3)), ShapeError, "triu")])
