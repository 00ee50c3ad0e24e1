"""Tensors that modules learn: Parameter, and Buffer for what they only keep."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from .. import _native
from .._native import Tensor

__all__ = ["Parameter", "Buffer"]


class _Marked(type):
    """Makes classes of tensors that are told apart by a mark: the type of tensors is final."""

    _mark: str

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.__dict__.get(cls._mark) is True

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls


def _marked(data: Optional[Tensor], requires_grad: bool, mark: str, name: str) -> Tensor:
    if data is None:
        data = _native.empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{name}(): argument 'data' must be Tensor, not {type(data).__name__}")
    made = data.detach()
    if requires_grad:
        made.requires_grad_()
    made.__dict__[mark] = True
    return made


if TYPE_CHECKING:
    # To type checkers they are kinds of tensors, so that all that a tensor can do is known of them.
    class Parameter(Tensor, metaclass=_Marked):  # type: ignore[misc]
        def __new__(cls, data: Optional[Tensor] = None, requires_grad: bool = True) -> Parameter: ...

    class Buffer(Tensor, metaclass=_Marked):  # type: ignore[misc]
        def __new__(cls, data: Optional[Tensor] = None, *, persistent: bool = True) -> Buffer: ...
else:
    class Parameter(metaclass=_Marked):
        """A tensor that a module lists among its parameters when it becomes an attribute of it. Shares memory with
        `data`."""

        _mark = "_is_param"

        def __new__(cls, data: Optional[Tensor] = None, requires_grad: bool = True) -> Tensor:
            return _marked(data, requires_grad, cls._mark, "Parameter")

    class Buffer(metaclass=_Marked):
        """A tensor that a module lists among its buffers when it becomes an attribute of it. Shares memory with
        `data`."""

        _mark = "_is_buffer"

        def __new__(cls, data: Optional[Tensor] = None, *, persistent: bool = True) -> Tensor:
            made = _marked(data, False, cls._mark, "Buffer")
            made.__dict__["persistent"] = persistent
            return made
