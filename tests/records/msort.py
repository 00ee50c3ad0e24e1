record("msort", lambda x: np.sort(x, 0) if x.ndim else x, dtypes=NUMBERS, exact=True,
       samples=[call(t(7)), call(t(4, 6)), call(t(5, 3, layout="transposed")), call(t(0, 3)), call(t(40, 50))])
