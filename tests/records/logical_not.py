record("logical_not", np.logical_not, dtypes=EVERY, result="bool",
       samples=unary(extra=[call(v([0, 1, 2, 0]), only=NUMBERS)]))
