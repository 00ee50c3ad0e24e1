record("lgamma", scipy.special.gammaln, dtypes=ALL, result="float", loose=10,
       samples=unary(low=0.1, high=40, skip=["-inf", "-max", "max", "denormal", "-denormal"],
                     extra=[call(t(200, low=-3.8, high=-0.2, dtype=float64), loose=100)]))
