record("meshgrid", lambda tensors, indexing="ij": np.meshgrid(*tensors, indexing=indexing), dtypes=MOVED, exact=True,
       samples=[call([t(3), t(4)]), call([t(2), t(3), t(4)]), call([t(3), t(4)], indexing="xy"), call([t(3), t()]),
                call([t(0), t(2)], indexing="ij")],
       errors=[error(call([t(2, 3)]), ShapeError, "meshgrid"),
               error(call([t(2), t(3)], indexing="yx"), ValueError, "indexing")])
