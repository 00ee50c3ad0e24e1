record("type_as", lambda x, other: cast(x, other), dtypes=EVERY, result=lambda x, other: other.dtype, exact=True, devices=False,
       samples=[call(t(3, 4, low=0), t(2, dtype=float64)), call(t(3, 4, low=0), t(1, dtype=int32)), call(t(5), t(1))])
