record("digamma", scipy.special.psi, dtypes=ALL, result="float", loose=10,
       samples=unary(low=0.1, high=40,
                     skip=["zero", "-zero", "-inf", "-one", "-three", "-max", "denormal", "-denormal", "tiny"]))
