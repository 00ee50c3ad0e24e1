record("xlogy", scipy.special.xlogy, dtypes=FLOATS + INTS, result="float scalars", loose=2,
       samples=binary(second={"low": 0.5, "high": 9}, scalars=[2.5], special_values=False,
                      extra=[call(v([0.0, 0.0, 1.0]), v([0.0, np.nan, 2.0]), only=FLOATS),
                             call(2, t(5, low=0.5), only=FLOATS)]))
