record("erfc", scipy.special.erfc, dtypes=ALL, result="float", loose=8,
       samples=unary(extra=[call(t(300, low=-6, high=9))]))
