def gelu_and_sum(*args, **factors):
    before = added_product(*args, **factors)
    return gelu_tanh(before), before


record("_addmm_gelu", gelu_and_sum, **activated_sums())
