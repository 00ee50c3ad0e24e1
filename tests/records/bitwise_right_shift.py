record("bitwise_right_shift", np.right_shift, dtypes=INTS, result="scalars",
       samples=binary(low=-90, high=90, second={"low": 0, "high": 5}, scalars=[2]))
