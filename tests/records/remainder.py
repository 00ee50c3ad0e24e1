record("remainder", np.remainder, dtypes=NUMBERS, result="scalars", loose=2,
       samples=binary(second={"low": 1, "high": 9}, special_values=False, scalars=[3],
                      extra=[call(t(30), t(30, low=-9, high=-1), only=FLOATS + [int64, int8])]),
       gradient_extra=[call(7.5, t(5, low=1, high=4))])
