record("bitwise_left_shift", np.left_shift, dtypes=INTS, result="scalars",
       samples=binary(second={"low": 0, "high": 5}, scalars=[2]))
