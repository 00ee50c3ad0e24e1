"""Gradients: backward passes over what was recorded, and what belongs to them."""

from __future__ import annotations

import importlib as _importlib

from .. import _native
from .._native import Tensor
from . import graph
from .anomaly_mode import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from .function import Function
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from . import anomaly_mode, function, grad_mode  # noqa: F401

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]

Variable = Tensor

# Parts that not every program uses.
_LAZY = ("forward_ad", "functional")


def __getattr__(name):
    if name in _LAZY:
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'facula.autograd' has no attribute '{name}'")


def _tensors(value, what):
    if isinstance(value, Tensor):
        return (value,)
    if isinstance(value, (tuple, list)):
        return tuple(value)
    try:
        return tuple(value)
    except TypeError:
        raise TypeError(f"{what} must be a tensor or a sequence of tensors, not {type(value).__name__}") from None


def _gradients(value, count, what):
    """One gradient for each output, None where there is none; empty when none was given."""
    if value is None:
        return ()
    grads = _tensors(value, what)
    if len(grads) != count:
        raise RuntimeError(f"got {count} tensors and {len(grads)} gradients; give one for each")
    return grads


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Adds the gradients of `tensors` to the `.grad` of the leaves that they depend on, or of `inputs` only."""
    outputs = _tensors(tensors, "backward: tensors")
    if grad_variables is not None and grad_tensors is None:
        grad_tensors = grad_variables
    if inputs is not None:
        inputs = _tensors(inputs, "backward: inputs")
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty; leave it out for all leaves.")
    grads = _gradients(grad_tensors, len(outputs), "backward: grad_tensors")
    _native._backward(outputs, grads, retain_graph, bool(create_graph), inputs or ())


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Gradients of `outputs` by `inputs`; every `.grad` is left alone.

    Inputs that nothing depends on are an error, or with `allow_unused` None, or with `materialize_grads` zeros. With
    `is_grads_batched` the first dimension of each of `grad_outputs` runs over several gradients.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    allow_unused = bool(materialize_grads) if allow_unused is None else bool(allow_unused)
    outputs = _tensors(outputs, "grad: outputs")
    inputs = _tensors(inputs, "grad: inputs")
    grads = _gradients(grad_outputs, len(outputs), "grad: grad_outputs")
    if is_grads_batched:
        found = _batched(outputs, inputs, grads, retain_graph, bool(create_graph), allow_unused)
    else:
        found = _native._grad(outputs, inputs, grads, retain_graph, bool(create_graph), allow_unused)
    if materialize_grads:
        size = (grads[0].shape[0],) if is_grads_batched else ()
        found = tuple(
            _native.zeros(size + tuple(x.shape), dtype=x.dtype, device=x.device) if g is None else g
            for g, x in zip(found, inputs)
        )
    return found


def _batched(outputs, inputs, grads, retain_graph, create_graph, allow_unused):
    if not grads or any(g is None for g in grads):
        raise RuntimeError("grad: is_grads_batched=True needs grad_outputs, each with a batch in front")
    unused = []

    def once(*entry):
        found = _native._grad(outputs, inputs, entry, retain_graph, create_graph, allow_unused)
        unused[:] = [i for i, g in enumerate(found) if g is None]
        return tuple(g for g in found if g is not None)

    found = list(_native._vmap(once, grads, [0] * len(grads), "error"))
    for place in unused:
        found.insert(place, None)
    return tuple(found)
