record("isin", lambda elements, test, assume_unique=False, invert=False: np.isin(elements, test, invert=invert),
       dtypes=NUMBERS, result="bool",
       samples=[call(t(4, 6, integer=True), t(3, integer=True)),
                call(t(40, integer=True), t(9, integer=True), invert=True), call(t(6, integer=True), 2),
                call(3, t(9, integer=True)), call(t(0), t(3)), call(t(3), t(0)),
                call(t(900, integer=True), t(200, integer=True)),
                call(t(5, 6, integer=True, layout="transposed"), t(4, integer=True))])
