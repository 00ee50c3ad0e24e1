record("bitwise_and", np.bitwise_and, dtypes=INTS + BOOL, result="scalars",
       samples=binary(scalars=[True]),
       errors=[error(call(t(3), t(3)), DTypeError, "bitwise_and")])
