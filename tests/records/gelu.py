record("gelu",
       lambda x, approximate="none":
         x * scipy.special.ndtr(x) if approximate == "none" else
         0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), dtypes=FLOATS, loose=2,
       samples=unary(skip=["-inf", "max", "-max"],
                     extra=[call(t(500, low=-9, high=9)), call(t(7, 40), approximate="tanh")]))
