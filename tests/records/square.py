record("square", np.square, dtypes=NUMBERS + COMPLEX, samples=unary())
