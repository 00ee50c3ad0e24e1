from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

from facula._native import Tensor

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]

_Tensors = Union[Tensor, Sequence[Any]]

class GradcheckError(RuntimeError): ...

def gradcheck(
    func: Callable[..., Any], inputs: _Tensors, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: Optional[bool] = None,
) -> bool: ...
def gradgradcheck(
    func: Callable[..., Any], inputs: _Tensors, grad_outputs: Optional[_Tensors] = None, *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool = False,
) -> bool: ...
