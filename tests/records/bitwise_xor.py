record("bitwise_xor", np.bitwise_xor, dtypes=INTS + BOOL, result="scalars",
       samples=binary(scalars=[True]),
       errors=[error(call(t(3), t(3)), DTypeError, "bitwise_xor")])
