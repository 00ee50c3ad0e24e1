record("zeros_like", lambda x, options=None: np.zeros(x.shape), dtypes=MOVED, result="same", exact=True,
       samples=[call(t(3, 4)), call(t()), call(t(0, 3)), call(t(3, 4, layout="transposed")),
                call(t(3), Options(int32))])
