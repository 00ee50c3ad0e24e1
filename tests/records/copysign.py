record("copysign", np.copysign, dtypes=FLOATS, result="float scalars", exact=True, signed_zero=True,
       samples=binary(special_values=False, scalars=[-2.0],
                      extra=[call(v([1.0, 0.0, -3.0, np.inf]), v([-0.0, -1.0, 0.0, -5.0]))]))
