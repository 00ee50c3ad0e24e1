"""Sharing memory with other libraries by DLPack."""
from .. import _native
from .._native import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """A capsule that describes the memory of the tensor; one reader can take it."""
    return _native._to_dlpack(tensor)
