record("threshold", lambda x, threshold, value: np.where(x <= threshold, value, x), dtypes=NUMBERS, exact=True,
       samples=[call(t(7, 5), 1, 3), call(t(0, 3), 0, 1), call(t(), 2, 5), call(t(5003), 0, 7),
                call(t(3, 4, 5, layout="strided"), 1, 2),
                call(t(2, 3, 4, 5, layout="channels_last"), 0.5, -2.5, only=FLOATS), call(special("nan"), 0, 1)])
