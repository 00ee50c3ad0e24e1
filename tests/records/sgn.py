record("sgn", lambda x: np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x))), dtypes=FLOATS + COMPLEX,
       samples=unary(special_values=False))
