record("randn", lambda size, *rest: size, dtypes=[float32], result="default", random=statistics(scipy.stats.norm()),
       samples=[call([50000]), call([300, 200], Options(float64)), call([0]), call([3, 4], None, Options(float32)),
                call([7]), call([50000], Options(bfloat16))])
