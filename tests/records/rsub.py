record("rsub", lambda a, b, alpha=1: b - alpha * a, dtypes=NUMBERS, result="scalars", exact=True,
       samples=binary(scalars=[3], extra=[call(t(4, 5), t(5), alpha=2), call(t(6), 2.5)]))
