record("median", lambda x, dim=None, keepdim=False: lower_median(x, dim, keepdim), dtypes=NUMBERS, exact=True,
       result=("same", "long"),
       samples=[call(t(9, unique=True)), call(t(4, 6, unique=True)), call(t()),
                call(t(3, 4, 5, unique=True, layout="strided")), call(t(4, 6, unique=True), 1),
                call(t(5, 7, unique=True), 0, True), call(t(3, 4, 5, unique=True, layout="transposed"), 1),
                call(t(2, 101, unique=True), -1)],
       errors=[error(call(t(3, 4), 2), IndexError, DIM_OUT_OF_RANGE)])
