record("neg", np.negative, dtypes=NUMBERS + COMPLEX,
       samples=unary(), exact=True, signed_zero=True,
       errors=[error(call(mask(3)), DTypeError, "neg")])
