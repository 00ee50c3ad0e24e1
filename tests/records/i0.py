record("i0", scipy.special.i0, dtypes=ALL, result="float", loose=4, samples=unary(special_values=False))
