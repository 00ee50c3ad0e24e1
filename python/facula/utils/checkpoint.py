"""Less memory for backward: what a part of a program saves is computed again when it is needed."""

from __future__ import annotations

from .. import _native
from .._native import Tensor
from ._pytree import tree_flatten, tree_unflatten

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=None,
    determinism_check="default",
    debug=False,
    preserve_rng_state=True,
    **kwargs,
):
    """Calls `function` so that the tape keeps its arguments only. Backward calls it again, with the same random
    numbers, for what is needed in between; it must do the same every time. Checkpoints may stand inside checkpoints.

    `use_reentrant` is accepted for code that names it: there is one way of doing this, and it has none of the limits of
    the reentrant one. `context_fn` gives two context managers, one for the first call and one for those in backward.
    """
    leaves, spec = tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    contexts = None if context_fn is None else context_fn()
    first = {}

    def of_tensors(*tensors):
        given = list(leaves)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        positional, named = tree_unflatten(given, spec)
        if contexts is None:
            result = function(*positional, **named)
        else:
            with contexts[1 if first else 0]:
                result = function(*positional, **named)
        outputs, out_spec = tree_flatten(result)
        if not first:
            first["spec"], first["outputs"] = out_spec, outputs
        return tuple(each for each in outputs if isinstance(each, Tensor))

    tensors = iter(_native._checkpoint(of_tensors, [leaves[i] for i in places], bool(preserve_rng_state)))
    outputs = [next(tensors) if isinstance(each, Tensor) else each for each in first.pop("outputs")]
    return tree_unflatten(outputs, first["spec"])


def checkpoint_sequential(functions, segments, input, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """Calls `functions` one after the other, in this many checkpointed segments; the last segment is an ordinary call.
    """
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions)
    if segments < 1:
        raise ValueError(f"checkpoint_sequential: segments must be at least 1, got {segments}")

    def run(start, end):
        def segment(x):
            for each in functions[start:end]:
                x = each(x)
            return x

        return segment

    size = max(len(functions) // segments, 1)
    end = 0
    while end + 2 * size <= len(functions) and end // size < segments - 1:
        input = checkpoint(
            run(end, end + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
        end += size
    return run(end, len(functions))(input)
