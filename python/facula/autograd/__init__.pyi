from collections.abc import Sequence
from typing import Any, Optional, Union

from facula._native import Tensor
from facula.autograd import (
    anomaly_mode as anomaly_mode,
    forward_ad as forward_ad,
    function as function,
    functional as functional,
    grad_mode as grad_mode,
    graph as graph,
)
from facula.autograd.anomaly_mode import (
    detect_anomaly as detect_anomaly,
    is_anomaly_enabled as is_anomaly_enabled,
    set_detect_anomaly as set_detect_anomaly,
)
from facula.autograd.function import Function as Function
from facula.autograd.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from facula.autograd.gradcheck import (
    GradcheckError as GradcheckError,
    gradcheck as gradcheck,
    gradgradcheck as gradgradcheck,
)

__all__ = ["Function", "GradcheckError", "backward", "detect_anomaly", "enable_grad", "grad", "gradcheck", "gradgradcheck",
           "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled"]

_Tensors = Union[Tensor, Sequence[Tensor]]
_Gradients = Union[Tensor, Sequence[Optional[Tensor]]]

Variable = Tensor

def backward(
    tensors: _Tensors, grad_tensors: Optional[_Gradients] = None, retain_graph: Optional[bool] = None,
    create_graph: bool = False, grad_variables: Optional[_Gradients] = None, inputs: Optional[_Tensors] = None,
) -> None: ...
# An entry is None for an unused input, which happens with allow_unused=True only: Any spares the others a check.
def grad(
    outputs: _Tensors, inputs: _Tensors, grad_outputs: Optional[_Gradients] = None, retain_graph: Optional[bool] = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: Optional[bool] = None,
    is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple[Any, ...]: ...
