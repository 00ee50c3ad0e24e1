"""`Tensor(...)`, and its kin for one dtype, such as `LongTensor(...)`: sizes or data, as in older code.

`facula.tensor(data)` and `facula.empty(size)` say which of the two is meant.
"""
from __future__ import annotations

import operator

from . import _native
from ._native import Size, Tensor


def _is_size(value):
    if isinstance(value, (Tensor, bool)) or getattr(value, "shape", ()):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _made(function, dtype, given, device):
    if not given:
        given = (0,)
    if len(given) == 1 and isinstance(given[0], Tensor):
        (other,) = given
        if other.dtype is not dtype:
            raise TypeError(f"{function}(): expected a tensor of {dtype} (got {other.dtype}); use other.to({dtype})")
        if device is not None and other.device.type != _native.device(device).type:
            raise ValueError(f"{function}(): the tensor is on {other.device}, not on {device}; "
                             f"use other.to('{device}')")
        return other.view_as(other)
    if len(given) == 1 and isinstance(given[0], Size):
        given = tuple(given[0])
    if all(_is_size(size) for size in given):
        return _native.empty(given, dtype=dtype, device=device)
    if len(given) > 1 or not (hasattr(given[0], "__len__") and hasattr(given[0], "__getitem__")):
        raise TypeError(f"{function}(): data must be a sequence (got {', '.join(type(g).__name__ for g in given)}); "
                        "give sizes as ints, or the elements in a list")
    return _native.tensor(given[0], dtype=dtype, device=device)


def make_tensor(*given, device=None):
    """What `Tensor(...)` gives: elements of the default dtype."""
    return _made("Tensor", _native.get_default_dtype(), given, device)


class _OfOneDtype(type):
    """The type of LongTensor and its kin: calling one makes a tensor, and tensors of the dtype are instances of it."""

    def __call__(cls, *given, device=None):
        return _made(cls.__name__, cls.dtype, given, device)

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.device.type == "cpu"


def _add(name, dtype):
    globals()[name] = _OfOneDtype(name, (), {"dtype": dtype, "__module__": "facula", "__slots__": (),
                                             "__doc__": f"Tensors of {dtype} on the cpu."})


for _name, _dtype in (("BFloat16", "bfloat16"), ("Bool", "bool"), ("Byte", "uint8"), ("Char", "int8"),
                      ("Double", "float64"), ("Float", "float32"), ("Half", "float16"), ("Int", "int32"),
                      ("Long", "int64"), ("Short", "int16")):
    _add(_name + "Tensor", getattr(_native, _dtype))
