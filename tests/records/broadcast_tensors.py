record("broadcast_tensors", lambda tensors: np.broadcast_arrays(*tensors), dtypes=MOVED, exact=True,
       samples=[call([t(3, 1), t(4)]), call([t(), t(2, 3), t(3)]), call([t(2, 1, layout="strided"), t(1, 3)])],
       errors=[error(call([t(3), t(4)]), ShapeError, "must match")])
