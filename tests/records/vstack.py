record("vstack", np.vstack, dtypes=MOVED, exact=True,
       samples=[call([t(3), t(3)]), call([t(2, 3), t(1, 3)]), call([t(), t()])],
       errors=[error(call([t(2, 3), t(2, 4)]), ShapeError, "Sizes of tensors must match")])
