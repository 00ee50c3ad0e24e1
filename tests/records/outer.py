record("outer", np.outer, dtypes=ALL,
       samples=[call(t(3), t(4)), call(t(0), t(3)), call(t(60), t(70)), call(t(5, layout="strided"), t(6))],
       errors=[error(call(t(2, 2), t(2)), ShapeError, "outer")])
