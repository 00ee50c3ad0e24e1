"""Operations of users with a gradient of their own.

class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x

y = Cube.apply(x)
"""

from __future__ import annotations

import functools

from .. import _native
from .._native import Tensor
from .._native import _FunctionCtx as FunctionCtx

__all__ = ["FunctionCtx", "BackwardCFunction", "FunctionMeta", "Function", "InplaceFunction", "once_differentiable"]


class BackwardCFunction(FunctionCtx):
    """The context of one call of a custom function, and the node of its outputs."""


class FunctionMeta(type):
    """Makes the type of the contexts of a function, and notes what the function defines."""

    def __init__(cls, name, bases, members):
        super().__init__(name, bases, members)
        cls._backward_cls = type(
            name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__module__": cls.__module__}
        )
        if "vjp" in members and "backward" not in members:
            cls.backward = members["vjp"]
        base = next((b for b in cls.__mro__ if b.__name__ == "Function" and b.__module__ == __name__), None)
        overrides = lambda what: base is not cls and getattr(cls, what) is not getattr(base, what)  # noqa: E731
        cls._sets_up_context = bool(base) and overrides("setup_context")
        cls._has_jvp = bool(base) and overrides("jvp")


class Function(metaclass=FunctionMeta):
    """An operation with a gradient of its own: subclass it, define static methods `forward` and `backward`, call
    `apply`.

    `forward(ctx, *args)` computes; with a `setup_context(ctx, inputs, output)` it is `forward(*args)` instead.
    `backward(ctx, *grads)` gets one gradient for each output and gives one for each argument, None for those that are
    no tensors. `jvp(ctx, *tangents)` is the same for forward mode; without it the derivative there comes from backward.
    Inside `vmap` the operations of forward and backward see batches, so no rule is needed there.
    """

    generate_vmap_rule = True

    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            f"{type(self).__name__}: custom functions are not instantiated; define static methods forward and backward,"
            f" and call {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the outputs: a tensor or a tuple. Nothing is recorded meanwhile."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Leaves in `ctx` what backward needs, for a forward that takes none."""
        raise NotImplementedError("setup_context(ctx, inputs, output): write it next to a forward that takes no ctx, "
                                  "or give forward a ctx as its first argument.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Gradients of the arguments of forward, from those of its outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with"
            " backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """Tangents of the outputs, from those of the arguments."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    # Calls forward and records it as one operation.
    apply = classmethod(_native._apply_function)

    @classmethod
    def _apply_dual(cls, *args):
        return cls._apply_at_level(_native._dual_levels() - 1, args)[0]

    @classmethod
    def _apply_at_level(cls, level, args):
        """Result and context, for arguments that may have tangents of this level of forward mode and those around it.
        """
        if level < 0:
            return _native._apply_with_context(cls, *args)
        pairs = [_native._unpack_dual(a, level) if isinstance(a, Tensor) else (a, None) for a in args]
        tangents = [tangent for _, tangent in pairs]
        if all(t is None for t in tangents):
            return cls._apply_at_level(level - 1, args)
        primals = [primal for primal, _ in pairs]
        result, ctx = cls._apply_at_level(level - 1, primals)
        if ctx.materialize_grads:
            tangents = [
                (
                    _native.zeros_like(p)
                    if t is None and isinstance(p, Tensor) and (p.is_floating_point() or p.is_complex())
                    else t
                )
                for p, t in zip(primals, tangents)
            ]
        ctx._in_jvp = True
        try:
            pushed = cls.jvp(ctx, *tangents)
        finally:
            ctx._in_jvp = False
        if not isinstance(result, tuple):
            return cls._with_tangent(result, pushed, level), ctx
        if not isinstance(pushed, tuple) or len(pushed) != len(result):
            raise RuntimeError(f"{cls.__name__}.jvp: expected {len(result)} tangents, one for each output of forward")
        return tuple(cls._with_tangent(r, t, level) for r, t in zip(result, pushed)), ctx

    @classmethod
    def _with_tangent(cls, output, tangent, level):
        if tangent is None or not isinstance(output, Tensor):
            return output
        if not isinstance(tangent, Tensor):
            raise TypeError(f"{cls.__name__}.jvp: expected Tensor or None (got {type(tangent).__name__})")
        return _native._make_dual(output, tangent, level)


class InplaceFunction(Function):
    """A function that may write to its input; kept for code that names it."""


class _OnceDifferentiable(Function):
    @staticmethod
    def forward(ctx, *grads):
        return tuple(g.detach() if isinstance(g, Tensor) else g for g in grads)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable; write its backward"
            " with operations on tensors and leave the mark out"
        )


def once_differentiable(fn):
    """For a `backward` that cannot be differentiated itself: a second derivative is an error instead of wrong."""

    @functools.wraps(fn)
    def wrapper(ctx, *grads):
        with _native_no_grad():
            result = fn(ctx, *grads)
        if not _native.is_grad_enabled():
            return result
        if not any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        # As if they depended on something, so that whoever differentiates them gets to the error.
        leaves = tuple(
            g.detach().requires_grad_() if isinstance(g, Tensor) and (g.is_floating_point() or g.is_complex()) else g
            for g in outputs
        )
        marked = _OnceDifferentiable.apply(*leaves)
        return marked if isinstance(result, tuple) else marked[0]

    return wrapper


def _native_no_grad():
    from .grad_mode import no_grad

    return no_grad()
