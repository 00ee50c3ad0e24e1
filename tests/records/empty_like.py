record("empty_like", lambda x, options=None: np.zeros(x.shape), dtypes=MOVED, result="same", values=False,
       samples=[call(t(3, 4)), call(t()), call(t(0, 3)), call(t(3, 4, layout="transposed")), call(t(3), Options(int32)),
                call(t(4, 9, layout="expanded"))])
