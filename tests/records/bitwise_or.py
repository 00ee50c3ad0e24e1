record("bitwise_or", np.bitwise_or, dtypes=INTS + BOOL, result="scalars",
       samples=binary(scalars=[True]),
       errors=[error(call(t(3), t(3)), DTypeError, "bitwise_or")])
