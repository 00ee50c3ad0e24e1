record("kthvalue", kthvalue, dtypes=NUMBERS, exact=True, result=("same", "long"),
       samples=[call(t(9, unique=True), 3), call(t(4, 9, unique=True), 2, 0), call(t(4, 9, unique=True), 9, 1, True),
                call(t(6, 7, unique=True, layout="transposed"), 4), call(t(), 1)],
       errors=[error(call(t(3), 4), IndexError, "k"), error(call(t(3), 0), IndexError, "k"),
               error(call(t(3), 1, 1), IndexError, DIM_OUT_OF_RANGE)])
