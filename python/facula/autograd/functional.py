"""Derivatives of functions at a point: products with vectors, Jacobians, Hessians. `facula.func` has the same as
functions of functions, which nest.
"""

from __future__ import annotations

from .. import _native
from .._native import Tensor
from ..func import jacfwd as _jacfwd
from . import grad as _grad
from .grad_mode import enable_grad

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def _tuple(value, what, where):
    """A tuple of tensors, and whether one was given."""
    given = isinstance(value, (tuple, list))
    values = tuple(value) if given else (value,)
    for i, each in enumerate(values):
        if not isinstance(each, Tensor):
            at = f" at index {i}" if given else ""
            raise TypeError(
                f"The {what} given to {where} must be either a Tensor or a tuple of Tensors but the value{at} has "
                f"type {type(each)}."
            )
    return given, values


def _result(given, values):
    return tuple(values) if given else values[0]


def _leaves(inputs, create_graph):
    """Tensors to differentiate by; with `create_graph` they stay connected to what the inputs depend on."""
    if create_graph:
        return tuple(x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs)
    return tuple(x.detach().requires_grad_() for x in inputs)


def _released(values, create_graph):
    return tuple(values) if create_graph else tuple(v.detach() for v in values)


def _evaluate(func, inputs, where, strict):
    given, outputs = _tuple(func(*inputs), "outputs of the user-provided function", where)
    if strict:
        for i, out in enumerate(outputs):
            if not out.requires_grad:
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                    "computed in a differentiable manner from the input when running in strict mode."
                )
    return given, outputs


def _gradients(outputs, inputs, grads, create_graph, strict, where):
    """Gradients by every input, zeros where there are none; an error there in strict mode."""
    pairs = [(o, g) for o, g in zip(outputs, grads) if o.requires_grad]
    found = (None,) * len(inputs)
    if pairs:
        outs, gs = zip(*pairs)
        found = _grad(outs, inputs, gs, retain_graph=True, create_graph=create_graph, allow_unused=True)
    if strict:
        for i, g in enumerate(found):
            if g is None:
                raise RuntimeError(
                    f"{where}: the output of the user-provided function is independent of input {i}. This is not "
                    "allowed in strict mode."
                )
    return tuple(_native.zeros_like(x) if g is None else g for g, x in zip(found, inputs))


def _vector(v, like, where):
    """The vectors to multiply with: those given, or a one for a single number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"{where}: The vector v can only be None if the user-provided function returns a single Tensor with "
                "a single element."
            )
        return (_native.ones_like(like[0]),)
    _, vectors = _tuple(v, "vector", where)
    if len(vectors) != len(like):
        raise RuntimeError(f"{where}: v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for i, (a, b) in enumerate(zip(vectors, like)):
        if a.shape != b.shape:
            raise RuntimeError(
                f"{where}: v has invalid size at entry {i}: should be {tuple(b.shape)} but got {tuple(a.shape)}."
            )
    return vectors


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of `func`, and the product of `v` with its Jacobian."""
    with enable_grad():
        many, inputs = _tuple(inputs, "inputs", "vjp")
        inputs = _leaves(inputs, create_graph)
        many_out, outputs = _evaluate(func, inputs, "vjp", strict)
        vectors = _vector(v, outputs, "vjp")
        found = _gradients(outputs, inputs, vectors, create_graph, strict, "vjp")
    return _result(many_out, _released(outputs, create_graph)), _result(many, _released(found, create_graph))


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of `func`, and the product of its Jacobian with `v`."""
    with enable_grad():
        _, inputs = _tuple(inputs, "inputs", "jvp")
        inputs = _leaves(inputs, create_graph)
        vectors = _vector(v, inputs, "jvp")
        many_out, outputs = _evaluate(func, inputs, "jvp", strict)
        # The gradient is linear in what comes in; the derivative of that map, taken backwards, is the product.
        weights = tuple(_native.zeros_like(o).requires_grad_() for o in outputs)
        pulled = _gradients(outputs, inputs, weights, True, strict, "jvp")
        found = _gradients(pulled, weights, vectors, create_graph, False, "jvp")
    return _result(many_out, _released(outputs, create_graph)), _result(many_out, _released(found, create_graph))


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The matrix of derivatives: sizes of an output, then of an input; a tuple (of tuples) where there are several.

    With `vectorize` all rows are one batch. `strategy` "forward-mode" goes by column instead, and needs it.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f'Expected strategy to be either "forward-mode" or "reverse-mode". Received: {strategy}')
    many, inputs = _tuple(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        if create_graph or not vectorize:
            raise NotImplementedError(
                'jacobian: strategy="forward-mode" needs vectorize=True and create_graph=False; use '
                "facula.func.jacfwd for others"
            )
        found = _jacfwd(func, argnums=tuple(range(len(inputs))))(*(x.detach() for x in inputs))
        if isinstance(found[0], tuple):  # several outputs
            return tuple(found) if many else tuple(row[0] for row in found)
        return found if many else found[0]
    with enable_grad():
        inputs = _leaves(inputs, create_graph)
        many_out, outputs = _evaluate(func, inputs, "jacobian", strict)
        rows = tuple(_rows(o, inputs, create_graph, strict, vectorize) for o in outputs)
    return _result(many_out, tuple(_result(many, row) for row in rows))


def _rows(output, inputs, create_graph, strict, vectorize):
    """The derivatives of one output by each input."""
    shapes = tuple(tuple(output.shape) + tuple(x.shape) for x in inputs)
    if not output.requires_grad or output.numel() == 0:
        return tuple(_native.zeros(s, dtype=x.dtype, device=x.device) for s, x in zip(shapes, inputs))
    basis = _native.eye(output.numel(), dtype=output.dtype, device=output.device).reshape(
        (output.numel(),) + tuple(output.shape)
    )
    if vectorize:
        found = _grad(
            (output,),
            inputs,
            (basis,),
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            is_grads_batched=True,
        )
        if strict and any(g is None for g in found):
            raise RuntimeError(
                "jacobian: vectorize=True finds an input that the output does not depend on; not allowed in strict mode"
            )
    else:
        rows = [_gradients((output,), inputs, (unit,), create_graph, strict, "jacobian") for unit in basis.unbind(0)]
        found = tuple(_native.stack(column) for column in zip(*rows))
    found = tuple(
        _native.zeros(s, dtype=x.dtype, device=x.device) if g is None else g.reshape(s)
        for g, s, x in zip(found, shapes, inputs)
    )
    return _released(found, create_graph)


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function with one number as result."""
    many, inputs = _tuple(inputs, "inputs", "hessian")

    def gradient(*given):
        out = func(*given)
        if not isinstance(out, Tensor) or out.numel() != 1:
            raise RuntimeError("The function given to hessian must return a single Tensor with a single element")
        leaves = tuple(x if x.requires_grad else x.detach().requires_grad_() for x in given)
        return _gradients((out.reshape(()),), leaves, (_native.ones_like(out.reshape(())),), True, strict, "hessian")

    if outer_jacobian_strategy == "forward-mode":
        if create_graph or not vectorize:
            raise NotImplementedError(
                'hessian: outer_jacobian_strategy="forward-mode" needs vectorize=True and '
                "create_graph=False; use facula.func.hessian for others"
            )
        from ..func import hessian as _hessian

        found = _hessian(func, argnums=tuple(range(len(inputs))))(*(x.detach() for x in inputs))
    else:
        found = jacobian(
            gradient,
            inputs,
            create_graph=create_graph,
            strict=strict,
            vectorize=vectorize,
            strategy=outer_jacobian_strategy,
        )
    return found if many else found[0][0]


def _gradient_of(func, inputs, where, strict):
    _, outputs = _evaluate(func, inputs, where, strict)
    if len(outputs) != 1 or outputs[0].numel() != 1:
        raise RuntimeError(f"The function given to {where} must return a single Tensor with a single element")
    found = _gradients(outputs, inputs, (_native.ones_like(outputs[0]),), True, strict, where)
    return outputs[0], found


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of a function with one number as result, and the product of `v` with its Hessian."""
    with enable_grad():
        many, inputs = _tuple(inputs, "inputs", "vhp")
        inputs = _leaves(inputs, create_graph)
        vectors = _vector(v, inputs, "vhp")
        output, gradient = _gradient_of(func, inputs, "vhp", strict)
        found = _gradients(gradient, inputs, vectors, create_graph, strict, "vhp")
    return _released((output,), create_graph)[0], _result(many, _released(found, create_graph))


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of a function with one number as result, and the product of its Hessian with `v`."""
    # The Hessian is symmetric.
    return vhp(func, inputs, v, create_graph, strict)
