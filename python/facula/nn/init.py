"""Initial values for parameters. Each function writes to the tensor without recording it, and gives it back."""
from __future__ import annotations

import math
from typing import Any, Optional

from .. import _native
from .._native import Tensor
from ..autograd import no_grad

__all__ = ["calculate_gain", "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_", "eye_", "dirac_",
           "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_"]

_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid")


def calculate_gain(nonlinearity: str, param: Optional[float] = None) -> float:
    """By how much a nonlinearity shrinks what passes through it, so that weights can make up for it."""
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope ** 2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers from the range between a and b."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal numbers."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Any = None) -> Tensor:
    """Normal numbers within [a, b], by the inverse of the distribution."""
    if not (std > 0 and a < b):
        raise ValueError(f"trunc_normal_(): expects std > 0 and a < b, but got std={std}, a={a} and b={b}")

    def share(x: float) -> float:
        return 0.5 * (1 + math.erf((x - mean) / (std * math.sqrt(2.0))))

    wide = tensor.dtype in (_native.float32, _native.float64)
    drawn = tensor if wide else _native.empty(tensor.shape, dtype=_native.float32, device=tensor.device)
    drawn.uniform_(2 * share(a) - 1, 2 * share(b) - 1, generator=generator)
    drawn.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b)
    return tensor if wide else tensor.copy_(drawn)


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """One everywhere."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zero everywhere."""
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """The unit matrix."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.zero_()
    tensor.diagonal().fill_(1.0)
    return tensor


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Filters that give back their input, for as many channels as there are."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if groups <= 0 or tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    in_group = tensor.shape[0] // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    for g in range(groups):
        for c in range(min(in_group, tensor.shape[1])):
            tensor[(g * in_group + c, c) + middle] = 1.0
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    place = math.prod(tensor.shape[2:])
    return tensor.shape[1] * place, tensor.shape[0] * place


def _fan(tensor: Tensor, mode: str) -> int:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return max(_calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"], 1)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform weights that keep the size of what passes, forward and backward alike."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / max(fan_in + fan_out, 1)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal weights that keep the size of what passes, forward and backward alike."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / max(fan_in + fan_out, 1)), generator)


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Any = None) -> Tensor:
    """Uniform weights that keep the size of what passes forward (fan_in) or backward (fan_out)."""
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Any = None) -> Tensor:
    """Normal weights that keep the size of what passes forward (fan_in) or backward (fan_out)."""
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Rows or columns, whichever are fewer, that are orthogonal and of length `gain`."""
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    q = _native.empty((min(rows, columns), max(rows, columns)), dtype=_native.float64).normal_(generator=generator)
    for i in range(q.shape[0]):
        row = q[i]
        for _ in range(2 if i else 0):  # twice: then rows are orthogonal to the last digits
            before = q[:i]
            row.sub_(before.t().mv(before.mv(row)))
        row.div_(row.norm())
    tensor.copy_(((q.t() if rows > columns else q) * gain).reshape(tensor.shape))
    return tensor


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal numbers, and zeros for the share `sparsity` of each column."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        chosen = _native.randperm(rows, generator=generator)[:zeros].to(tensor.device)
        tensor[:, column].index_fill_(0, chosen, 0)
    return tensor


def uniform_by_(tensor: Tensor, count: int) -> Tensor:
    """Uniform within 1 / sqrt(count), as biases begin."""
    bound = 1 / math.sqrt(count) if count > 0 else 0.0
    return uniform_(tensor, -bound, bound)


def fan_in_uniform_(tensor: Tensor, weight: Tensor) -> Tensor:
    """Uniform within 1 / sqrt(n), where an output of `weight` has n inputs."""
    return uniform_by_(tensor, _calculate_fan_in_and_fan_out(weight)[0])
