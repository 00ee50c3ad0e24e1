record("special_i1", scipy.special.i1, dtypes=ALL, result="float", loose=4, samples=unary(special_values=False))
