record("trace", lambda x: np.trace(x), dtypes=NUMBERS, loose=4, cancels=True,
       result=lambda x: int64 if x.dtype.category < 2 else x.dtype,
       samples=[call(t(4, 4)), call(t(3, 6)), call(t(6, 3, layout="transposed")), call(t(0, 3))],
       errors=[error(call(t(3)), ShapeError, "trace")])
