record("clone", lambda x, memory_format=None: x, dtypes=EVERY + [float8_e4m3fn, float8_e5m2], exact=True,
       samples=[call(t(3, 4)), call(t()), call(t(0, 3)), call(t(3, 4, layout="transposed")),
                call(t(3, 4, 5, layout="strided")), call(t(4, 9, layout="expanded")),
                call(t(2, 3, 4, 5), memory_format=MemoryFormat("channels_last")), call(t(5003))])
