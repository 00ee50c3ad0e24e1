def activated(*args, use_gelu=False, **factors):
    return gelu_tanh(added_product(*args, **factors)) if use_gelu else np.maximum(added_product(*args, **factors), 0)


record("_addmm_activation", activated, **activated_sums({}, {"use_gelu": True}))
