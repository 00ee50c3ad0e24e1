record("log", np.log, dtypes=EVERY, result="float",
       samples=unary(low=0.01, high=50,
                     extra=[call(t(300, low=0.99, high=1.01)), call(t(9, low=-5, high=-1), only=FLOATS)]))
