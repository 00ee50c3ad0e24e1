"""Forward mode: tensors that carry a tangent, and operations that carry it on.

with dual_level():
    x = make_dual(primal, tangent)
    value, derivative = unpack_dual(f(x))
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from .. import _native
from .._native import Tensor

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]


class UnpackedDualTensor(NamedTuple):
    """A tensor without its tangent, and the tangent, which is None when it has none."""

    primal: Tensor
    tangent: Optional[Tensor]


def enter_dual_level():
    """Opens a level and gives its number. `dual_level` closes it in any case, so prefer that."""
    return _native._enter_dual_level()


def exit_dual_level(*, level=None):
    """Closes the innermost level; its tangents are gone."""
    _native._exit_dual_level(_native._dual_levels() - 1 if level is None else level)


def make_dual(tensor, tangent, *, level=None):
    """A tensor with the elements of `tensor` that moves in the direction `tangent`."""
    return _native._make_dual(tensor, tangent, _native._dual_levels() - 1 if level is None else level)


def unpack_dual(tensor, *, level=None):
    """The tensor without its tangent, and the tangent. Outside of a level no tensor has one."""
    if level is None:
        level = _native._dual_levels() - 1
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_native._unpack_dual(tensor, level))


class dual_level:
    """A level of forward mode, open in this block. Levels nest: tangents may have tangents."""

    def __enter__(self):
        self.level = enter_dual_level()
        return self.level

    def __exit__(self, *error):
        exit_dual_level(level=self.level)
