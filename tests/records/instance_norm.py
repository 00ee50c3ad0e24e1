record("instance_norm", instance_norm, dtypes=FLOATS, loose=60, rounds=8, result="same",
       samples=[call(t(2, 3, 5), t(3), t(3), None, None, True, 0.1, 1e-5, True), call(t(2, 3, 4, 3), None, None, None, None, True, 0.1, 1e-5, True),
                call(t(2, 3, 4, 3), t(3), t(3), held(t(3)), held(t(3, low=0.5, high=2)), False, 0.1, 1e-5, True)],
       gradient=[call(t(2, 2, 5), t(2), t(2), None, None, True, 0.1, 1e-2, True)],
       errors=[error(call(t(2, 3, 5), None, None, None, None, False, 0.1, 1e-5, True), ValueError, "running_mean")])
