record("contiguous", lambda x, memory_format=None: x, dtypes=MOVED, exact=True,
       samples=[call(t(3, 4)), call(t()), call(t(0, 3)), call(t(3, 4, layout="transposed")),
                call(t(40, 70, layout="transposed")), call(t(3, 4, 5, layout="permuted")),
                call(t(4, 9, layout="expanded")), call(t(2, 3, 4, 5), memory_format=MemoryFormat("channels_last")),
                call(t(2, 3, 4, 5, layout="channels_last"))])
