from collections.abc import Sequence
from typing import Optional, Union

from facula._native import Tensor, dtype as _dtype
from facula._ops import cross as cross, matmul as matmul

_Ints = Union[int, Sequence[int]]

def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Optional[Tensor] = None) -> Tensor: ...
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor: ...
def vector_norm(
    x: Tensor, ord: float = 2, dim: Optional[_Ints] = None, keepdim: bool = False, *,
    dtype: Optional[_dtype] = None, out: Optional[Tensor] = None,
) -> Tensor: ...
def matrix_norm(
    A: Tensor, ord: Union[str, float] = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *,
    dtype: Optional[_dtype] = None, out: Optional[Tensor] = None,
) -> Tensor: ...
def norm(
    A: Tensor, ord: Optional[Union[str, float]] = None, dim: Optional[_Ints] = None, keepdim: bool = False, *,
    out: Optional[Tensor] = None, dtype: Optional[_dtype] = None,
) -> Tensor: ...
def multi_dot(tensors: Sequence[Tensor], *, out: Optional[Tensor] = None) -> Tensor: ...
