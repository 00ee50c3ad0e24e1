record("ravel", lambda x: x.reshape(-1), dtypes=MOVED, exact=True,
       samples=[call(t(2, 3, 4)), call(t()), call(t(0, 3)), call(t(3, 4, layout="transposed")),
                call(t(2, 3, 4, 5, layout="channels_last"))])
