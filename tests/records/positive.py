record("positive", np.positive, dtypes=NUMBERS + COMPLEX,
       samples=unary(), exact=True,
       errors=[error(call(mask(3)), DTypeError, "bool")])
