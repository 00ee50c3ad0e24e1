from typing import Optional

from facula._native import dtype as _dtype

class finfo:
    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    smallest_subnormal: float
    resolution: float
    dtype: str
    def __init__(self, type: Optional[_dtype] = None) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class iinfo:
    bits: int
    max: int
    min: int
    dtype: str
    def __init__(self, type: _dtype) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
