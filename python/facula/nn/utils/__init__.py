"""What training loops do to the parameters of a whole network: bound gradients, see all parameters as one vector."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional, Union

from ... import _native
from ..._native import Tensor
from ...autograd import no_grad

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector",
           "vector_to_parameters"]

_Tensors = Union[Tensor, Iterable[Tensor]]


def _listed(tensors: _Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _grads(parameters: _Tensors) -> list[Tensor]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


@no_grad()
def get_total_norm(tensors: _Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: Optional[bool] = None) -> Tensor:
    """The norm of all tensors together, as if they were one vector."""
    tensors = _listed(tensors)
    if not tensors:
        return _native.tensor(0.0)
    norm_type = float(norm_type)
    if norm_type > 0:
        total = _native._optim.norm(tensors, norm_type)
    else:
        norms = [(t.float() if t.element_size() < 4 else t).norm(norm_type).to(tensors[0].device) for t in tensors]
        total = _native.stack(norms).norm(norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
                           "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                           "`error_if_nonfinite=False`")
    return total


@no_grad()
def clip_grads_with_norm_(parameters: _Tensors, max_norm: float, total_norm: Tensor, foreach: Optional[bool] = None) -> None:
    """Scales gradients, whose norm is known, down to `max_norm`."""
    # At most one, so that nothing has to be asked of a device.
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    _native._optim.scale_([grad.detach() for grad in _grads(parameters)], scale)


def clip_grad_norm_(parameters: _Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                    foreach: Optional[bool] = None) -> Tensor:
    """Scales gradients down so that the norm of all of them together is at most `max_norm`. Gives back the norm that they
    had."""
    parameters = _listed(parameters)
    total = get_total_norm([g.detach() for g in _grads(parameters)], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


@no_grad()
def clip_grad_value_(parameters: _Tensors, clip_value: float, foreach: Optional[bool] = None) -> None:
    """Clamps each gradient to the range from -clip_value to clip_value."""
    for grad in _grads(parameters):
        grad.detach().clamp_(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters behind each other."""
    parameters = list(parameters)
    devices = {str(p.device) for p in parameters}
    if len(devices) > 1:
        raise TypeError(f"Found two parameters on different devices, this is currently not supported: {sorted(devices)}")
    return _native.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """The slices of the vector become the contents of the parameters."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected Tensor, but got: {type(vec).__name__}")
    parameters = list(parameters)
    total = sum(p.numel() for p in parameters)
    if vec.dim() != 1 or vec.numel() != total:
        raise ValueError(f"vector_to_parameters(): the vector must have as many entries as the parameters, {total}, but has the "
                         f"shape {list(vec.shape)}")
    at = 0
    for param in parameters:
        param.data = vec.detach()[at:at + param.numel()].view(param.shape)
        at += param.numel()
