"""What functions written in Python share: a look at their arguments, a place for their results."""
from __future__ import annotations

from . import _native
from ._native import Tensor


def need_tensor(function, **arguments):
    """Says which argument is no tensor, and what it is, before something deep inside fails on it."""
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{function}(): argument '{name}' must be Tensor, not {type(value).__name__}")


def need_tensors(function, name, values):
    """The same for a list of tensors, which is given back as a tuple."""
    if isinstance(values, Tensor) or not isinstance(values, (list, tuple)):
        raise TypeError(f"{function}(): argument '{name}' must be a list or tuple of Tensors, "
                        f"not {type(values).__name__}")
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(f"{function}(): element {i} of argument '{name}' must be Tensor, "
                            f"not {type(value).__name__}")
    return tuple(values)


def several(tensors):
    """`f(a, b)` and `f([a, b])` mean the same."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(tensors[0])
    return tensors


def give(made, out):
    """The result, or `out` with the result in it."""
    if out is None:
        return made
    if out.shape == made.shape or made.dim() == 0:
        return out.copy_(made)
    return _native.cat((made,), 0, out=out)


def known_any(mask):
    """Whether a mask is true somewhere, as far as one can know: on meta tensors and inside vmap one cannot."""
    try:
        return bool(mask.any())
    except _native.NotSupportedError:
        return False
