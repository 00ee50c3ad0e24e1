record("deg2rad", np.deg2rad, dtypes=ALL, result="float", samples=unary(low=-360, high=360))
