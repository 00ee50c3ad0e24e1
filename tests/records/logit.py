record("logit", lambda x, eps=None: scipy.special.logit(x if eps is None else np.clip(x, eps, 1 - eps)), dtypes=FLOATS,
       loose=4,
       samples=unary(low=0.01, high=0.99, special_values=False,
                     extra=[call(t(50, low=-0.5, high=1.5), 0.125), call(v([0.0, 1.0, 0.5]))]))
