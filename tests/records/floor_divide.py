record("floor_divide", lambda a, b: np.floor_divide(a, b), dtypes=NUMBERS, result="scalars", exact=True,
       samples=binary(second={"low": 1, "high": 9}, special_values=False, scalars=[3],
                      extra=[call(7, t(5, low=1, high=9))]))
