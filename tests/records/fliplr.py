record("fliplr", np.fliplr, dtypes=MOVED, exact=True,
       samples=[call(t(3, 4)), call(t(2, 3, 4)), call(t(3, 4, layout="transposed"))],
       errors=[error(call(t(3)), ShapeError, "2-d")])
