record("tanh", np.tanh, dtypes=EVERY, result="float",
       samples=unary(extra=[call(t(300, low=-0.01, high=0.01)), call(t(300, low=-30, high=30))]))
