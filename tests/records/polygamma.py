record("polygamma", scipy.special.polygamma, dtypes=ALL, result="float", loose=10,
       samples=[call(1, t(7, 5, low=0.1, high=40)), call(1, t(low=0.1, high=4)), call(1, t(0, 3)), call(0, t(9, low=0.1, high=9)),
                call(2, t(5003, low=0.5, high=20)), call(3, t(6, 11, low=0.5, high=9, layout="transposed")),
                call(1, t(3, 4, 5, low=0.5, high=9, layout="strided")), call(5, t(40, low=1, high=9)),
                call(1, v([float("inf"), float("nan"), 0.0, -3.0], dtype=float32)),
                call(1, t(60, low=-30.9, high=-30.1, dtype=float64)), call(1, t(60, low=-90.9, high=-90.1, dtype=float64)),
                call(2, t(60, low=-60.4, high=-60.1, dtype=float64), loose=10)],
       errors=[error(call(-1, t(3)), ValueError, "does not support negative n")])
