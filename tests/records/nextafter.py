record("nextafter", lambda a, b: np.nextafter(a, b), dtypes=[float64], samples=binary(special_values=False), exact=True)
