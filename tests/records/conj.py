record("conj", np.conj, dtypes=FLOATS + COMPLEX, samples=unary(), exact=True, inplace=False)
