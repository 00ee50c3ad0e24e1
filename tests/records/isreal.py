record("isreal", np.isreal, dtypes=EVERY, result="bool",
       samples=unary(extra=[call(v([1 + 0j, 2j, 3 + 1j]), only=COMPLEX)]))
