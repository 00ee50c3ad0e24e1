record("pairwise_distance", lambda a, b, p=2, eps=1e-6, keepdim=False: vector_norm(a - b + eps, p, -1, keepdim),
       dtypes=FLOATS, loose=20, rounds=3,
       samples=[call(t(4, 6), t(4, 6)), call(t(4, 6), t(6), 1), call(t(4, 6), t(4, 6), 3.0, 1e-3, True),
                call(t(5), t(5)), call(t(4, 6, layout="transposed"), t(4, 6))])
