from typing import Any

from facula._native import Tensor, from_dlpack as from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]

def to_dlpack(tensor: Tensor) -> Any: ...
