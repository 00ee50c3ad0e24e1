def nan_to_num(x, nan=None, posinf=None, neginf=None, claimed=None):
    x = np.where(np.isnan(x), nan or 0.0, x)
    x = np.where(x == np.inf, claimed.largest if posinf is None else posinf, x)
    return np.where(x == -np.inf, -claimed.largest if neginf is None else neginf, x)


record("nan_to_num", nan_to_num, dtypes=FLOATS, exact=True, sees_dtype=True,
       samples=unary(extra=[call(special(), 2.5), call(special(), 1.0, 8.0, -4.0), call(special(), posinf=0.5)]))
