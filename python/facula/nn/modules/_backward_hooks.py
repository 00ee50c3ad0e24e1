"""Hooks on the gradients of a module: its inputs and outputs pass through functions that change nothing forward and tell the
hooks backward."""
from __future__ import annotations

from typing import Any, Callable, Optional

from ..._native import Tensor
from ...autograd.function import Function


class _Watched(Function):
    """Gives its tensors back; hands their gradients to `tell` and passes on what that returns."""

    @staticmethod
    def forward(ctx: Any, tell: Callable[..., Any], *tensors: Tensor) -> tuple[Any, ...]:
        ctx.tell = tell
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Optional[Tensor]) -> tuple[Any, ...]:
        return (None, *ctx.tell(grads))


def _tensors(values: tuple[Any, ...]) -> list[Any]:
    return [i for i, v in enumerate(values) if isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex())]


class BackwardHooks:
    """One call of a module with backward hooks."""

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.inputs = 0  # arguments of the call, for which the hooks get gradients
        self.places: list[Any] = []
        self.grad_outputs: tuple[Any, ...] = ()

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.inputs = len(args)
        self.places = [i for i in _tensors(args) if args[i].requires_grad]
        if not self.hooks or not self.places:
            return args
        watched = _Watched.apply(self._of_inputs, *(args[i] for i in self.places))
        changed = list(args)
        for place, tensor in zip(self.places, watched):
            changed[place] = tensor
        return tuple(changed)

    def watch_outputs(self, result: Any) -> Any:
        single = isinstance(result, Tensor)
        values: Any = (result,) if single else tuple(result) if isinstance(result, (tuple, list)) else None
        if values is None:
            raise RuntimeError(f"backward hooks of {type(self.module).__name__} need a tensor or a tuple of tensors as output, "
                               f"got {type(result).__name__}")
        self.outputs = len(values)
        self.out_places = [i for i in _tensors(values) if values[i].requires_grad]
        if not self.out_places:
            return result
        watched = _Watched.apply(self._of_outputs, *(values[i] for i in self.out_places))
        values = list(values)
        for place, tensor in zip(self.out_places, watched):
            values[place] = tensor
        return values[0] if single else type(result)(values) if type(result) in (tuple, list) else type(result)(*values)

    def _of_outputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        filled: list[Any] = [None] * self.outputs
        for place, grad in zip(self.out_places, grads):
            filled[place] = grad
        full = tuple(filled)
        for hook in self.pre_hooks:
            changed = hook(self.module, full)
            if changed is not None:
                full = _checked(changed, full, "grad_output")
        self.grad_outputs = full
        if not self.places:  # no input wants gradients: nobody else would call the hooks
            for hook in self.hooks:
                hook(self.module, (None,) * self.inputs, full)
        return tuple(full[place] for place in self.out_places)

    def _of_inputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        filled: list[Any] = [None] * self.inputs
        for place, grad in zip(self.places, grads):
            filled[place] = grad
        full = tuple(filled)
        for hook in self.hooks:
            changed = hook(self.module, full, self.grad_outputs)
            if changed is not None:
                full = _checked(changed, full, "grad_input")
        return tuple(full[place] for place in self.places)


def _checked(changed: Any, before: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    changed = (changed,) if isinstance(changed, Tensor) else tuple(changed)
    if len(changed) != len(before):
        raise RuntimeError(f"a backward hook returned {len(changed)} {what}, but there are {len(before)}")
    return changed
