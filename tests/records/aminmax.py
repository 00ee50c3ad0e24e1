record("aminmax",
       lambda x, dim=None, keepdim=False:
         (reducing(lambda x, **k: np.min(x, **k))(x, dim, keepdim), reducing(lambda x, **k: np.max(x, **k))(x, dim,
         keepdim)), dtypes=NUMBERS, exact=True,
       samples=[call(t(4, 6)), call(t()), call(t(3, 4, 5, layout="strided"), dim=1),
                call(t(6, 500), dim=0, keepdim=True), call(special(), dim=0)])
