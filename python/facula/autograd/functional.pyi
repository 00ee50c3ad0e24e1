from collections.abc import Callable, Sequence
from typing import Any, Literal, Optional, Union

from facula._native import Tensor

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]

_Tensors = Union[Tensor, Sequence[Tensor]]

# Results have the form of the inputs and outputs: tensors, or tuples of them.
def vjp(
    func: Callable[..., Any], inputs: _Tensors, v: Optional[_Tensors] = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]: ...
def jvp(
    func: Callable[..., Any], inputs: _Tensors, v: Optional[_Tensors] = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]: ...
def jacobian(
    func: Callable[..., Any], inputs: _Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: Literal["reverse-mode", "forward-mode"] = "reverse-mode",
) -> Any: ...
def hessian(
    func: Callable[..., Any], inputs: _Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: Literal["reverse-mode", "forward-mode"] = "reverse-mode",
) -> Any: ...
def vhp(
    func: Callable[..., Any], inputs: _Tensors, v: Optional[_Tensors] = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]: ...
def hvp(
    func: Callable[..., Any], inputs: _Tensors, v: Optional[_Tensors] = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]: ...
