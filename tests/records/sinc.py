record("sinc", np.sinc, dtypes=ALL, result="float", loose=4, samples=unary(skip=["inf", "-inf", "max", "-max"]))
