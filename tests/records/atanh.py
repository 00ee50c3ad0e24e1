record("atanh", np.arctanh, dtypes=ALL, result="float", loose=2, samples=unary(low=-0.95, high=0.95))
