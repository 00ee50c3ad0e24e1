record("view_as_real", lambda x: np.stack([x.real, x.imag], -1), dtypes=COMPLEX, result="real", exact=True,
       aliases=True,
       samples=[call(t(3, 4)), call(t()), call(t(0)), call(t(3, 4, layout="strided"))],
       errors=[error(call(t(3)), DTypeError, "complex")])
