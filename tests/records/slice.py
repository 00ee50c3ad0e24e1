record("slice",
       lambda x, dim=0, start=None, end=None, step=1: x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)],
       dtypes=MOVED, exact=True, aliases=True,
       samples=[call(t(7, 4)), call(t(7, 4), 0, 1, 5), call(t(7, 4), 0, 1, 7, 2), call(t(7, 4), 1, -3, 100),
                call(t(7, 4), -1, 3, 1), call(t(0, 3), 0, 0, 4), call(t(7, 5, layout="strided"), 0, None, -2, 3)],
       errors=[error(call(t(5), 0, 0, 3, 0), ValueError, "step must be positive"),
               error(call(t(5), 1), IndexError, DIM_OUT_OF_RANGE)])
