S = {"low": 0.5, "high": 2}

record("batch_norm", lambda *a: batch_norm(*a)[0], dtypes=FLOATS, loose=60, rounds=2, result="same",
       samples=[call(t(4, 3, 5), t(3), t(3), None, None, True, 0.1, 1e-5, True), call(t(6, 3), t(3), t(3), None, None, True, 0.1, 1e-3, True),
                call(t(2, 3, 4, 5), t(3), t(3), held(t(3)), held(t(3, **S)), False, 0.1, 1e-5, True)],
       gradient=[call(t(4, 3, 5), t(3), t(3), None, None, True, 0.1, 1e-2, True)],
       errors=[error(call(t(4, 3), t(4), None, None, None, True, 0.1, 1e-5, True), ShapeError, "weight should contain 3 elements")])
