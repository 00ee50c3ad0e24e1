record("imag", np.imag, dtypes=COMPLEX, result="real",
       samples=unary(), exact=True, aliases=True,
       errors=[error(call(t(3)), DTypeError, "complex")])
