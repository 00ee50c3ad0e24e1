record("rad2deg", np.rad2deg, dtypes=ALL, result="float", samples=unary())
