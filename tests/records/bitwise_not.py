record("bitwise_not", np.invert, dtypes=INTS + BOOL,
       samples=unary(),
       errors=[error(call(t(3)), DTypeError, "bitwise_not")])
