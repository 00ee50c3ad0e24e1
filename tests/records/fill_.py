record("fill_", lambda x, value: np.full_like(x, value), dtypes=ALL, result="same", exact=True,
       samples=[call(t(3, 4), 1), call(t(), 2), call(t(0), 3), call(t(5003), 1),
                call(t(3, 4, layout="transposed"), t()), call(t(3, 4, 5, layout="strided"), 5),
                call(t(4), 2.5, only=FLOATS), call(t(4), float("inf"), only=FLOATS)],
       errors=[error(call(t(3), t(2)), ShapeError, "fill_")])
