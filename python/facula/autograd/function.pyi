from collections.abc import Callable
from typing import Any, TypeVar

from facula._native import _FunctionCtx as FunctionCtx

__all__ = ["FunctionCtx", "BackwardCFunction", "FunctionMeta", "Function", "InplaceFunction", "once_differentiable"]

_F = TypeVar("_F", bound=Callable[..., Any])

class BackwardCFunction(FunctionCtx): ...

class FunctionMeta(type): ...

class Function(metaclass=FunctionMeta):
    generate_vmap_rule: bool
    # Those who write a function give these the arguments that they like.
    forward: Any
    setup_context: Any
    backward: Any
    vjp: Any
    jvp: Any
    vmap: Any
    @classmethod
    def apply(cls, *args: Any) -> Any: ...

class InplaceFunction(Function): ...

def once_differentiable(fn: _F) -> _F: ...
