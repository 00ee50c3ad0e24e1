record("dstack", np.dstack, dtypes=MOVED, exact=True,
       samples=[call([t(3), t(3)]), call([t(2, 3), t(2, 3)]), call([t(2, 3, 1), t(2, 3, 4)])])
