record("div", divide, dtypes=ALL + COMPLEX,
       result=lambda a, b, rounding_mode=None: promoted(a, b) if rounding_mode else floated(a, b),
       samples=binary(second={"low": 1, "high": 9}, scalars=[3, 2.5],
                      extra=[call(t(40, low=-50, high=50), t(40, low=1, high=9), rounding_mode="floor", only=NUMBERS),
                             call(t(40, low=-50, high=50), t(40, low=1, high=9), rounding_mode="trunc", only=NUMBERS),
                             call(t(40, low=-50, high=50), 4, rounding_mode="floor", only=NUMBERS)]),
       errors=[error(call(t(3), t(3), rounding_mode="up"), ValueError, "rounding_mode"),
               error(call(t(3), t(4)), ShapeError, "must match")])
