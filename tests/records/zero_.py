record("zero_", np.zeros_like, dtypes=EVERY, result="same", exact=True,
       samples=[call(t(3, 4)), call(t()), call(t(0)), call(t(5003)), call(t(3, 4, layout="transposed")),
                call(t(3, 4, 5, layout="strided"))])
