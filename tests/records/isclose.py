record("isclose", np.isclose, dtypes=NUMBERS, result="bool",
       samples=[call(v([1.0, 2.0, np.nan, np.inf]), v([1.0, 2.5, np.nan, np.inf]), only=FLOATS),
                call(t(40, integer=True), t(40, integer=True)),
                call(v([1.0, 2.0, 3.0]), v([1.5, 2.0, 4.0]), 0.0, 0.5, only=FLOATS), call(t(0), t(0)),
                call(t(4, 1, integer=True), t(3, integer=True))])
