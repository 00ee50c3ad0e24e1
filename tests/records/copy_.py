record("copy_", lambda x, src, non_blocking=False: np.broadcast_to(cast(src, x.dtype), x.shape), dtypes=EVERY,
       result="same", exact=True, devices=False,
       samples=[call(t(3, 4), t(3, 4)), call(t(3, 4), t(4)), call(t(3, 4), t()), call(t(0, 3), t(0, 3)),
                call(t(3, 4, layout="transposed"), t(3, 4)), call(t(40, 70), t(40, 70, layout="transposed")),
                call(t(2, 3, 4, 5, layout="channels_last"), t(2, 3, 4, 5)), call(t(5), t(5, dtype=int32)),
                call(t(5), t(5, dtype=float32, low=0, high=9)),
                call(t(3, 4, 5, layout="strided"), t(3, 4, 5, dtype=boolean))],
       errors=[error(call(t(3), t(4)), ShapeError, "must match")])
