record("complex", lambda real, imag: real + 1j * imag, dtypes=WIDE_FLOATS,
       result=lambda real, imag: complex_of(real.dtype), exact=True,
       samples=[call(t(3, 4), t(3, 4)), call(t(), t()), call(t(3, 1), t(4)), call(t(0), t(0)),
                call(t(3, 4, layout="transposed"), t(3, 4))],
       errors=[error(call(ints(3), ints(3)), DTypeError, "complex")])
