record("gelu",
       lambda x, approximate="none":
         x * scipy.special.ndtr(x) if approximate == "none" else gelu_tanh(x), dtypes=FLOATS, loose=2,
       samples=unary(skip=["-inf", "max", "-max"],
                     extra=[call(t(500, low=-9, high=9)), call(t(7, 40), approximate="tanh")]))
