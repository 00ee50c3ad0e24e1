record("erf", scipy.special.erf, dtypes=ALL, result="float", samples=unary(extra=[call(t(300, low=-0.01, high=0.01))]))
