record("flipud", np.flipud, dtypes=MOVED, exact=True,
       samples=[call(t(3, 4)), call(t(5)), call(t(3, 4, layout="transposed"))],
       errors=[error(call(t()), ShapeError, "1-d")])
