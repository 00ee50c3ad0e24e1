record("_to_copy", lambda x, options=None: cast(x, options) if options else x, dtypes=EVERY, exact=True,
       result=lambda x, options=None: options.dtype if options else x.dtype,
       samples=[call(t(3, 5, low=0), Options(d)) for d in EVERY] +
               [call(t(3, 4, layout="transposed")), call(t(3, 4, 5, layout="strided"), Options(float64)), call(t()),
                call(t(0, 3), Options(int32))])
