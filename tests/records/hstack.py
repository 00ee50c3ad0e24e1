record("hstack", np.hstack, dtypes=MOVED, exact=True,
       samples=[call([t(3), t(2)]), call([t(2, 3), t(2, 1)]), call([t(), t()])],
       errors=[error(call([t(2, 3), t(3, 3)]), ShapeError, "Sizes of tensors must match")])
