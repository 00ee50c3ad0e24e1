record("_addmm_relu", lambda *args, **factors: np.maximum(added_product(*args, **factors), 0), **activated_sums())
