WITH_ZEROS = [[0.0, 1.5, 2.0], [0.0, -0.5, 0.0], [1.0, 2.0, 3.0]]

record("prod", reducing(lambda x, **k: np.prod(x, **k)), dtypes=FLOATS + INTS + BOOL, loose=40,
       result=lambda x, *a, dtype=None, **k: dtype or (int64 if x.dtype.category < 2 else x.dtype),
       samples=[call(t(4, 6, low=0.5, high=2)), call(t()), call(t(9), 0),
                call(t(3, 4, 5, low=0.5, high=2, layout="strided")), call(t(4, 6), 1), call(t(4, 6), 0, True),
                call(t(0, 3), 0), call(t(0)), call(t(2, 3, 4, 5, layout="channels_last"), -2),
                call(t(5, dtype=int8), 0, dtype=int32, only=[int32]),
                call(t(2, 300, low=0.9, high=1.1), 1, only=FLOATS)],
       errors=[error(call(t(3, 4), 2), IndexError, DIM_OUT_OF_RANGE)],
       gradient_extra=[call(exactly(WITH_ZEROS), 1), call(exactly(WITH_ZEROS), 0, True),
                       call(exactly([2.0, 0.0, 3.0])), call(exactly([2.0, 0.0, 0.0])), call(exactly(0.0))])
