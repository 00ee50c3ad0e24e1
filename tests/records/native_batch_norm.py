S = {"low": 0.5, "high": 2}
FLOAT_STATISTICS = lambda *args, **kwargs: float64 if args[0].dtype is float64 else float32  # noqa: E731

record("native_batch_norm", batch_norm, dtypes=FLOATS, loose=60, rounds=2, result=("same", FLOAT_STATISTICS, FLOAT_STATISTICS),
       samples=[call(t(4, 3, 5), t(3), t(3), None, None, True, 0.1, 1e-5), call(t(6, 3), t(3), t(3), None, None, True, 0.1, 1e-3),
                call(t(2, 3, 4, 5), None, None, None, None, True, 0.1, 1e-5),
                call(t(2, 3, 4, 5, layout="channels_last"), t(3), t(3), None, None, True, 0.1, 1e-5),
                call(t(8, 5, 9, 11, layout="channels_last"), t(5), t(5), None, None, True, 0.1, 1e-5),
                call(t(2, 3, 4, 5, layout="strided"), t(3), None, None, None, True, 0.1, 1e-5),
                call(t(2, 3, 4, 5), t(3), t(3), held(t(3)), held(t(3, **S)), False, 0.1, 1e-5),
                call(t(2, 3, 70, 70, low=99, high=101), t(3), t(3), None, None, True, 0.1, 1e-5, loose=60, only=[float32, float64])],
       gradient=[call(t(4, 3, 5), t(3), t(3), None, None, True, 0.1, 1e-2), call(t(3, 2, 2, 2, layout="channels_last"), t(2), None, None, None, True, 0.1, 1e-2),
                 call(t(2, 3, 4), t(3), t(3), held(t(3)), held(t(3, **S)), False, 0.1, 1e-5)],
       errors=[error(call(t(4, 3), t(4), None, None, None, True, 0.1, 1e-5), ShapeError, "weight should contain 3 elements"),
               error(call(t(4, 3), None, None, None, None, False, 0.1, 1e-5), ValueError, "running_mean"),
               error(call(t(1, 3), None, None, None, None, True, 0.1, 1e-5), ValueError, "more than 1 value per channel"),
               error(call(t(4), None, None, None, None, True, 0.1, 1e-5), ShapeError, "at least 2 dimensions")])
