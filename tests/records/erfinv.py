record("erfinv", scipy.special.erfinv, dtypes=FLOATS, loose=8, samples=unary(low=-0.98, high=0.98))
