record("histc",
       lambda x, bins=100, min=0, max=0:
         np.histogram(x, bins, (min, max) if min != max else (x.min(), x.max()))[0].astype(float), dtypes=WIDE_FLOATS,
       meta=False, exact=True,
       samples=[call(t(500, integer=True, low=0, high=19), 5, -0.5, 19.5), call(t(50), 4, -1, 1),
                call(v([1.0, 2.0, 2.0, 5.0]), 4), call(t(6, 7, layout="transposed"), 3, -4, 4)],
       errors=[error(call(t(5), 0), ValueError, "bins"),
               error(call(t(5), 4, 2, 1), ValueError, "max must be larger than min")])
