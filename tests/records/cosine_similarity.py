record("cosine_similarity",
       lambda a, b, dim=1, eps=1e-8:
         (a * b).sum(dim) / (np.maximum(np.linalg.norm(a, axis=dim), eps) * np.maximum(np.linalg.norm(b, axis=dim),
         eps)), dtypes=FLOATS, loose=20, rounds=4,
       samples=[call(t(4, 6), t(4, 6)), call(t(4, 6), t(4, 6), 0), call(t(2, 3, 5), t(3, 5), -1),
                call(t(4, 6, layout="transposed"), t(4, 6)), call(t(5, 300), t(5, 300), 1),
                call(v([[0.0, 0.0]]), v([[1.0, 0.0]]))])
