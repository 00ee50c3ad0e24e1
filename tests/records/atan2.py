record("atan2", np.arctan2, dtypes=NUMBERS, result="float",
       samples=binary(second={"low": 1, "high": 4}, special_values=False,
                      extra=[call(t(90), t(90), only=FLOATS),
                             call(v([0.0, -0.0, 0.0, -0.0, 1.0]), v([-1.0, -1.0, 1.0, 1.0, 0.0]), only=FLOATS)]))
