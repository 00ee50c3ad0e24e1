record("view_as_complex", lambda x: x[..., 0] + 1j * x[..., 1], dtypes=[float32, float64],
       result=lambda x: complex_of(x.dtype), exact=True, aliases=True,
       samples=[call(t(3, 4, 2)), call(t(2)), call(t(0, 2))],
       errors=[error(call(t(3)), ShapeError, "view_as_complex"),
               error(call(ints(3, 2)), DTypeError, "view_as_complex")])
