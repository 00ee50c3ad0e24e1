"""Functions of functions: gradients, directional derivatives, Jacobians, batches. They nest at will.

per_sample = vmap(grad(loss), in_dims=(None, 0))(weights, samples)
"""

from __future__ import annotations

import functools

from .. import _native
from .._native import Tensor
from ..utils._pytree import broadcast_prefix, tree_flatten, tree_unflatten

__all__ = ["grad", "grad_and_value", "vjp", "jvp", "linearize", "vmap", "jacrev", "jacfwd", "hessian"]


def _tensors_of(tree, what):
    """The leaves of a tree, which must be tensors, and its shape."""
    leaves, spec = tree_flatten(tree)
    for each in leaves:
        if not isinstance(each, Tensor):
            raise RuntimeError(f"{what}: expected tensors, got {type(each).__name__}")
    return leaves, spec


def _chosen(args, argnums, where):
    """The arguments that `argnums` names: one, or a tuple of them."""
    if not isinstance(argnums, int) and not (
        isinstance(argnums, tuple) and argnums and all(isinstance(i, int) for i in argnums)
    ):
        raise RuntimeError(f"{where}: argnums must be an int or a tuple of at least one int, got {argnums!r}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    places = []
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"{where}: Got argnum={number}, but only {len(args)} positional inputs")
        places.append(number % len(args))
    if len(set(places)) != len(places):
        raise RuntimeError(f"{where}: argnums must be unique, got {argnums}")
    return places


class _Partial:
    """`func` as a function of the leaves of the chosen arguments, which gives its results flat and remembers their
    shape.
    """

    def __init__(self, func, args, kwargs, argnums, where, has_aux=False):
        self.func, self.args, self.kwargs, self.where, self.has_aux = func, args, kwargs, where, has_aux
        self.single = isinstance(argnums, int)
        self.places = _chosen(args, argnums, where)
        self.leaves, self.spec = _tensors_of(
            tuple(args[p] for p in self.places), f"{where}: the arguments to differentiate by"
        )
        self.out_spec = None
        self.out_count = 0
        self._aux_spec = None
        self._aux = None
        self._aux_places = ()

    def __call__(self, *leaves):
        args = list(self.args)
        for place, tree in zip(self.places, tree_unflatten(leaves, self.spec)):
            args[place] = tree
        result = self.func(*args, **self.kwargs)
        aux = None
        if self.has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise RuntimeError(
                    f"{self.where}: output of function f should be a tuple: (output, aux) if has_aux is True"
                )
            result, aux = result
        outputs, self.out_spec = _tensors_of(result, f"{self.where}: the results of the function")
        self.out_count = len(outputs)
        if not self.has_aux:
            return tuple(outputs)
        # Tensors of aux leave by the same way as results, which takes the history of this level away from them.
        self._aux, self._aux_spec = tree_flatten(aux)
        self._aux_places = [i for i, each in enumerate(self._aux) if isinstance(each, Tensor)]
        return tuple(outputs) + tuple(self._aux[i] for i in self._aux_places)

    def outputs(self, flat):
        return tree_unflatten(flat[: self.out_count], self.out_spec)

    def aux(self, flat):
        leaves = list(self._aux)
        for place, tensor in zip(self._aux_places, flat[self.out_count :]):
            leaves[place] = tensor
        return tree_unflatten(leaves, self._aux_spec)

    def arguments(self, flat):
        """Something for each leaf of the chosen arguments, in their shape."""
        trees = tree_unflatten(flat, self.spec)
        return trees[0] if self.single else tuple(trees)


def _zeros_like(tensor):
    return _native.zeros_like(tensor)


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives the gradient and the value of `func`, whose result is one real number."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        part = _Partial(func, args, kwargs, argnums, "grad", has_aux)
        flat, pull = _native._vjp(part, part.leaves)
        if part.out_spec.type is not None:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a single tensor, got a "
                f"{part.out_spec.type.__name__}; with (output, aux) set has_aux=True"
            )
        value = flat[0]
        if value.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with "
                f"{value.dim()} dims; reduce it, e.g. with sum(), or use jacrev."
            )
        weights = (_native.ones_like(value),) + tuple(_zeros_like(t) for t in flat[1:])
        gradient = part.arguments(pull(weights))
        return gradient, ((part.outputs(flat), part.aux(flat)) if has_aux else value)

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradient of `func`, whose result is one real number. With `has_aux` the result is a
    pair, and its second member is given along.
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func, *primals, has_aux=False):
    """The value of `func`, and a function from gradients of its results to gradients of its arguments."""
    if not primals:
        raise RuntimeError("vjp: Expected at least one primal to differentiate by")
    part = _Partial(func, primals, {}, tuple(range(len(primals))), "vjp", has_aux)
    flat, pull = _native._vjp(part, part.leaves)

    def vjp_fn(*cotangents):
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        weights, spec = _tensors_of(given, "vjp_fn: the cotangents")
        if len(weights) != part.out_count:
            raise RuntimeError(
                f"vjp_fn: {len(weights)} cotangents for {part.out_count} results; give them in the same structure"
            )
        for weight, out in zip(weights, flat):
            if weight.shape != out.shape:
                raise RuntimeError(
                    f"vjp_fn: a cotangent is {tuple(weight.shape)} for a result of {tuple(out.shape)}; they must be "
                    "the same"
                )
        rest = tuple(_zeros_like(t) for t in flat[part.out_count :])
        return part.arguments(pull(tuple(weights) + rest))

    def vjp_one(*cotangents):
        return vjp_fn(*cotangents)

    result = part.outputs(flat)
    return (result, vjp_one, part.aux(flat)) if has_aux else (result, vjp_one)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The value of `func`, and its derivative in the direction of `tangents`, one for each of `primals`."""
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {what} to be a tuple. E.g. it should be valid to call "
                "f(*primals)."
            )
    if not primals:
        raise RuntimeError("jvp: Expected at least one primal")
    part = _Partial(func, primals, {}, tuple(range(len(primals))), "jvp", has_aux)
    directions, spec = _tensors_of(tangents, "jvp: the tangents")
    if spec != part.spec:
        raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to have the same python structure")
    values, derivatives = _native._jvp(part, part.leaves, directions)
    result = part.outputs(values), part.outputs(derivatives)
    return result + (part.aux(values),) if has_aux else result


def linearize(func, *primals):
    """The value of `func`, and its derivative at this point as a function of the direction."""
    value = func(*primals)
    return value, lambda *tangents: jvp(func, primals, tangents)[1]


def _basis(tensor):
    count = tensor.numel()
    return _native.eye(count, dtype=tensor.dtype, device=tensor.device).reshape((count,) + tuple(tensor.shape))


def _sizes(*tensors):
    return tuple(s for t in tensors for s in t.shape)


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that gives the matrix of derivatives of `func`: sizes of the result, then of the argument. It takes a
    backward pass for each entry of the result, all in one batch, or `chunk_size` of them at once.
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        part = _Partial(func, args, kwargs, argnums, "jacrev", has_aux)
        flat, pull = _native._vjp(part, part.leaves)
        rows = []
        for i in range(part.out_count):
            out = flat[i]
            if out.numel() == 0:
                rows.append(
                    part.arguments([_native.zeros(_sizes(out, x), dtype=x.dtype, device=x.device) for x in part.leaves])
                )
                continue

            def row(unit):
                return pull(tuple(unit if k == i else _zeros_like(t) for k, t in enumerate(flat)))

            found = vmap(row, chunk_size=chunk_size)(_basis(out))
            rows.append(part.arguments([g.reshape(_sizes(out, x)) for g, x in zip(found, part.leaves)]))
        result = _build(rows, part.out_spec)
        return (result, part.aux(flat)) if has_aux else result

    return wrapper


def _build(trees, spec):
    """A tree of this shape whose leaves are trees themselves."""
    return tree_unflatten(trees, spec)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error", chunk_size=None):
    """As `jacrev`, with a forward pass for each entry of the argument instead. Better where the argument is the smaller
    one.
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        part = _Partial(func, args, kwargs, argnums, "jacfwd", has_aux)
        columns = []  # for each argument leaf the derivatives of each result
        values = None
        for i, x in enumerate(part.leaves):

            def column(unit):
                nonlocal values
                directions = [unit if k == i else _zeros_like(t) for k, t in enumerate(part.leaves)]
                values, derivatives = _native._jvp(part, part.leaves, directions)
                return derivatives[: part.out_count] + values[part.out_count :]

            if x.numel() == 0:
                outs = part(*part.leaves)
                columns.append(
                    [_native.zeros(_sizes(o, x), dtype=o.dtype, device=o.device) for o in outs[: part.out_count]]
                )
                continue
            found = vmap(column, randomness=randomness, chunk_size=chunk_size)(_basis(x))
            columns.append(
                [d.movedim(0, -1).reshape(tuple(d.shape[1:]) + tuple(x.shape)) for d in found[: part.out_count]]
            )
        result = _build([part.arguments([c[j] for c in columns]) for j in range(part.out_count)], part.out_spec)
        if not has_aux:
            return result
        return result, func(*args, **kwargs)[1]

    return wrapper


def hessian(func, argnums=0):
    """A function that gives the second derivatives of `func`, whose result is one number."""
    return jacfwd(jacrev(func, argnums), argnums)


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """`func` for each entry of a batch, as one call over whole batches.

    `in_dims` says for each argument (or each tensor in it) which dimension runs over the batch, None for what all
    entries share; `out_dims` where it goes in the results. `randomness` says what random operations do: "error" refuses
    them, "same" draws once for all entries, "different" for each. At most `chunk_size` entries run at once.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got " + str(randomness)
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        leaves, spec = tree_flatten(args)
        dims = _in_dims(in_dims, leaves, spec)
        size = next(leaf.shape[d] for leaf, d in zip(leaves, dims) if d is not None)
        if chunk_size is None or chunk_size >= size:
            results, out_spec, outs = _run_batch(func, leaves, spec, dims, kwargs, out_dims, randomness)
            return tree_unflatten(results, out_spec)
        chunks = []
        state = _native.get_rng_state() if randomness == "same" else None
        for start in range(0, size, chunk_size):
            if state is not None:
                _native.set_rng_state(state)
            part = [
                leaf if d is None else leaf.narrow(d, start, min(chunk_size, size - start))
                for leaf, d in zip(leaves, dims)
            ]
            chunks.append(_run_batch(func, part, spec, dims, kwargs, out_dims, randomness))
        _, out_spec, outs = chunks[0]
        results = [
            chunks[0][0][i] if d is None else _native.cat([c[0][i] for c in chunks], d) for i, d in enumerate(outs)
        ]
        return tree_unflatten(results, out_spec)

    return wrapper


def _in_dims(in_dims, leaves, spec):
    """The dimension of each leaf of the arguments, none for those that are shared."""
    if not isinstance(in_dims, (int, tuple, list)) or isinstance(in_dims, bool):
        raise ValueError(
            "vmap: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got:"
            f" {type(in_dims)}."
        )
    if not leaves:
        raise ValueError(
            "vmap: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no "
            "inputs."
        )
    given = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    dims = broadcast_prefix(given, spec)
    if dims is None:
        raise ValueError(
            f"vmap: in_dims is not compatible with the structure of inputs. in_dims is {in_dims!r}, inputs has "
            f"{len(spec.children)} arguments"
        )
    found, size = [], None
    for leaf, d in zip(leaves, dims):
        if d is not None and (not isinstance(d, int) or isinstance(d, bool)):
            raise ValueError(f"vmap: Got in_dim={d!r} for an input; it must be either an integer dimension or None.")
        if d is None:
            found.append(None)
            continue
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"vmap: Got in_dim={d} for an input but the input is of type {type(leaf)}. We cannot vmap over"
                " non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -leaf.dim() <= d < leaf.dim():
            raise ValueError(
                f"vmap: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {leaf.dim()} so "
                f"expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        d %= leaf.dim()
        if size is not None and leaf.shape[d] != size:
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{[size, leaf.shape[d]]} for the mapped dimension"
            )
        size = leaf.shape[d]
        found.append(d)
    if size is None:
        raise ValueError("vmap: at least one argument must be mapped over; give it an in_dim that is not None")
    return found


def _run_batch(func, leaves, spec, dims, kwargs, out_dims, randomness):
    """Results as a flat list, their structure, and where the batch is in each."""
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    seen = {}

    def flat(*tensors):
        level = max(_native._batch_level(t) for t, i in zip(tensors, places) if dims[i] is not None)
        given = list(leaves)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        results, seen["spec"] = tree_flatten(func(*tree_unflatten(given, spec), **kwargs))
        seen["dims"] = _out_dims(out_dims, results, seen["spec"])
        # Results that are the same for all entries and shall stay so go past vmap.
        seen["shared"] = {}
        batched = []
        for i, (result, d) in enumerate(zip(results, seen["dims"])):
            if d is not None:
                batched.append(result)
                continue
            if _native._batch_level(result) == level:
                raise ValueError("vmap: a result depends on the batch but its out_dim is None; give it a dimension")
            seen["shared"][i] = result
        return tuple(batched)

    batched = iter(_native._vmap(flat, [leaves[i] for i in places], [dims[i] for i in places], randomness))
    results, outs = [], []
    for i, d in enumerate(seen["dims"]):
        if d is None:
            results.append(seen["shared"][i])
            outs.append(None)
            continue
        result = next(batched)
        if not -result.dim() <= d < result.dim():
            raise IndexError(f"vmap: out_dim {d} does not fit a result of {result.dim()} dims")
        d %= result.dim()
        results.append(result if d == 0 else result.movedim(0, d))
        outs.append(d)
    return results, seen["spec"], outs


def _out_dims(out_dims, results, spec):
    for result in results:
        if not isinstance(result, Tensor):
            raise ValueError(
                f"vmap: expected the function to only return Tensors, got type {type(result)}. Did you mean to return a"
                " tensor?"
            )
    if isinstance(out_dims, int) or out_dims is None:
        return [out_dims] * len(results)
    dims = broadcast_prefix(tuple(out_dims) if isinstance(out_dims, list) and spec.type is tuple else out_dims, spec)
    if dims is None and spec.type is None and isinstance(out_dims, (tuple, list)) and len(out_dims) == 1:
        dims = list(out_dims)
    if dims is None:
        raise ValueError(
            f"vmap: out_dims is not compatible with the structure of outputs. out_dims is {out_dims!r}, there are "
            f"{len(results)} results"
        )
    return dims
