record("kron", np.kron, dtypes=NUMBERS,
       samples=[call(t(2, 3), t(4, 2)), call(t(3), t(2)), call(t(2, 3), t(2)), call(t(), t(2, 2)),
                call(t(2, 3, layout="transposed"), t(3, 2))])
