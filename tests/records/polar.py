record("polar", lambda size, angle: size * np.exp(1j * angle), dtypes=WIDE_FLOATS,
       result=lambda size, angle: complex_of(size.dtype),
       samples=[call(t(3, 4), t(3, 4)), call(t(), t()), call(t(3, 1), t(4)), call(t(0), t(0)),
                call(t(3, 4, layout="transposed"), t(3, 4))])
