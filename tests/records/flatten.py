record("flatten",
       lambda x, start_dim=0, end_dim=-1:
         x.reshape(x.shape[:start_dim % max(x.ndim, 1)] + (-1,) + x.shape[end_dim % max(x.ndim,
         1) + 1:]) if x.size else x.reshape((0,)), dtypes=MOVED, exact=True,
       samples=[call(t(2, 3, 4)), call(t(2, 3, 4), 1), call(t(2, 3, 4), 0, 1), call(t()), call(t(5)), call(t(0, 3)),
                call(t(2, 3, 4, layout="transposed"), 1), call(t(2, 3, 4, 5, layout="channels_last"), 2)],
       errors=[error(call(t(2, 3), 1, 0), ValueError, "start_dim cannot come after end_dim"),
               error(call(t(2, 3), 2), IndexError, DIM_OUT_OF_RANGE)])
