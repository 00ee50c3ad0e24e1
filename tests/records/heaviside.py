record("heaviside", np.heaviside, dtypes=FLOATS, exact=True,
       samples=binary(special_values=False, extra=[call(v([-1.0, 0.0, 2.0]), v([0.5, 0.25, 7.0]))]))
