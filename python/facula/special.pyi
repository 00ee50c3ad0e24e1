from typing import Optional

from facula._native import Tensor
from facula._ops import (
    digamma as digamma,
    digamma as psi,
    erf as erf,
    erfc as erfc,
    erfinv as erfinv,
    exp2 as exp2,
    expm1 as expm1,
    i0 as i0,
    lgamma as gammaln,
    log1p as log1p,
    log_softmax as log_softmax,
    logit as logit,
    logsumexp as logsumexp,
    round as round,
    sigmoid as expit,
    sinc as sinc,
    softmax as softmax,
    special_i1 as i1,
    xlogy as xlogy,
)

def polygamma(n: int, input: Tensor, *, out: Optional[Tensor] = None) -> Tensor: ...
def entr(input: Tensor) -> Tensor: ...
def ndtr(input: Tensor) -> Tensor: ...
def xlog1py(input: Tensor, other: Tensor) -> Tensor: ...
def multigammaln(input: Tensor, p: int, *, out: Optional[Tensor] = None) -> Tensor: ...
