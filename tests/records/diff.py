record("diff",
       lambda x, n=1, dim=-1, prepend=None, append=None:
         np.diff(x, n, dim, *(() if prepend is None else (prepend,)), **({} if append is None else {"append": append})),
       dtypes=NUMBERS, loose=2, rounds=2, cancels=lambda x, n=1, *rest: 2.0**n * np.max(x, initial=0),
       samples=[call(t(6)), call(t(4, 6), 2, 0), call(t(4, 6), 1, 1), call(t(3, 4, 5, layout="strided"), 1, 1),
                call(t(5), 1, 0, t(2), t(3)), call(t(1))])
