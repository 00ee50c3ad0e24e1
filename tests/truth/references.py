"""NumPy references that several records share, and those too long for a record: plain formulas in double precision."""

import itertools
import math

import numpy as np
import scipy.special
import scipy.stats  # noqa: F401 (for records)

NONE, MEAN, SUM = 0, 1, 2  # values of `reduction` in losses


def reducing(f):
    """A NumPy reduction f(x, axis, keepdims) as PyTorch calls it: (x, dim, keepdim), x possibly without dimensions."""

    def reference(x, dim=None, keepdim=False, **ignored):
        axis = None if dim is None or isinstance(dim, (list, tuple)) and not dim else dim
        axis = tuple(axis) if isinstance(axis, (list, tuple)) else axis
        if x.ndim == 0 and axis is not None:
            return np.asarray(f(x.reshape(1), axis=axis, keepdims=False)).reshape(())
        return np.asarray(f(x, axis=axis, keepdims=keepdim))

    return reference


def along(f):
    """f(x, axis) that keeps the shape, for tensors that may have no dimensions."""

    def reference(x, dim=0, **ignored):
        return f(x, dim) if x.ndim else f(x.reshape(1), 0).reshape(())

    return reference


def extremum(best, where, pairwise):
    """The extremum of everything; along a dimension also its index; or of two tensors entry by entry."""

    def reference(x, dim=None, keepdim=False):
        if isinstance(dim, np.ndarray):
            return pairwise(x, dim)
        if dim is None:
            return best(x)
        if x.ndim == 0:
            return x, np.zeros((), "i8")
        index = where(x, axis=dim)
        index = np.expand_dims(index, dim)
        values = np.take_along_axis(x, index, dim)
        return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))

    return reference


def reduced(loss, reduction=MEAN):
    return loss if reduction == NONE else loss.mean() if reduction == MEAN else loss.sum()


def truncated_div(a, b):
    return (
        np.trunc(np.true_divide(a, b))
        if np.result_type(a, b).kind == "f"
        else np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    )


def divide(a, b, rounding_mode=None):
    if rounding_mode is None:
        return np.true_divide(a, b)
    return np.floor_divide(a, b) if rounding_mode == "floor" else truncated_div(a, b)


# Indexing


def gather(x, dim, index, **ignored):
    if x.ndim == 0:
        return np.broadcast_to(x, index.shape)
    window = tuple(slice(0, s) if d != dim % x.ndim else slice(None) for d, s in enumerate(index.shape))
    return np.take_along_axis(x[window], index, dim)


def take_along_dim(x, indices, dim=None):
    if dim is None:
        return x.reshape(-1)[indices]
    dim %= x.ndim
    other = [1 if d == dim else max(a, b) for d, (a, b) in enumerate(zip(x.shape, indices.shape))]
    wide = lambda a: np.broadcast_to(a, [a.shape[d] if d == dim else n for d, n in enumerate(other)])
    return np.take_along_axis(wide(x), wide(indices), dim)


def scatter(x, dim, index, src, reduce=None, include_self=True):
    """Every scatter: `reduce` is None, "sum", "prod", "mean", "amax" or "amin"."""
    out = np.array(x)
    count = np.full(out.shape, 1 if include_self else 0)
    for at in itertools.product(*(range(n) for n in index.shape)):
        to = list(at)
        to[dim] = index[at]
        to = tuple(to)
        value = src[at] if np.ndim(src) else src
        first = reduce is None or not include_self and count[to] == 0
        with np.errstate(all="ignore"):
            if first:
                out[to] = value
            elif reduce in ("sum", "mean", "add"):
                out[to] += value
            elif reduce in ("prod", "multiply"):
                out[to] *= value
            elif reduce == "amax":
                out[to] = np.maximum(out[to], value)
            else:
                out[to] = np.minimum(out[to], value)
        count[to] += 1
    if reduce == "mean":
        safe = np.maximum(count, 1)
        out = out / safe if out.dtype.kind in "fc" else out // safe
    return out


def index_along(x, dim, index, source, combine):
    """x with slices combined along `dim`: combine(old, new) for each index in turn."""
    out = np.array(x) if np.ndim(x) else np.array(x).reshape(1)
    moved = np.moveaxis(out, dim, 0)
    source = np.asarray(source)
    slices = np.moveaxis(source, dim, 0) if source.ndim else np.broadcast_to(source, (index.size,) + moved.shape[1:])
    for n, at in enumerate(index.reshape(-1)):
        moved[at] = combine(moved[at], slices[n])
    return out.reshape(np.shape(x))


def fancy(indices):
    """The NumPy key for a list of optional index tensors."""
    return tuple(slice(None) if i is None else i for i in indices)


# Normalisation


def normalized(x, dims, eps):
    mean = x.mean(dims, keepdims=True)
    variance = x.var(dims, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps), mean, 1 / np.sqrt(variance + eps)


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5, *ignored):
    out = normalized(x, tuple(range(-len(normalized_shape), 0)), eps)[0]
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def rms_norm(x, normalized_shape, weight=None, eps=None, claimed=None):
    eps = 2.0**-claimed.mantissa if eps is None else eps
    dims = tuple(range(-len(normalized_shape), 0))
    out = x / np.sqrt((x * x).mean(dims, keepdims=True) + eps)
    return out if weight is None else out * weight


# Losses


def nll_loss(x, target, weight=None, reduction=MEAN, ignore_index=-100):
    classes = 1 if x.ndim > 1 else 0
    moved = np.moveaxis(x, classes, -1)
    weight = np.ones(moved.shape[-1]) if weight is None else weight
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    factor = np.where(kept, weight[safe], 0.0)
    loss = -np.where(kept, np.take_along_axis(moved, safe[..., None], -1)[..., 0], 0.0) * factor
    return loss if reduction == NONE else loss.sum() / factor.sum() if reduction == MEAN else loss.sum()


# Statistics


def _variance_arguments(dim=None, unbiased=True, keepdim=False, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axis = tuple(dim) if isinstance(dim, (list, tuple)) and dim else None if dim is None or dim == [] else dim
    return axis, keepdim, (1 if unbiased else 0) if correction is None else correction


def variance(f):
    """np.var or np.std with PyTorch's (dim, unbiased, keepdim) or (dim, correction=, keepdim=)."""

    def reference(x, *args, **kwargs):
        axis, keepdim, correction = _variance_arguments(*args, **kwargs)
        return np.asarray(f(x, axis=axis, ddof=correction, keepdims=keepdim))

    return reference


def mean_like_variance(x, *args, **kwargs):
    axis, keepdim, _ = _variance_arguments(*args, **kwargs)
    return np.asarray(np.mean(x, axis=axis, keepdims=keepdim))


def vector_norm(x, p=2, dim=None, keepdim=False, dtype=None):
    axis = None if dim is None or dim == [] else tuple(dim) if isinstance(dim, (list, tuple)) else dim
    size = np.abs(x)
    keep = {"axis": axis, "keepdims": keepdim}
    if p == 0:
        return np.asarray((size != 0).sum(**keep).astype(float))
    if math.isinf(p):
        return np.asarray(size.max(**keep) if p > 0 else size.min(**keep))
    return np.asarray((size**p).sum(**keep) ** (1.0 / p))


def lower_median(x, dim=None, keepdim=False):
    """Of an even number of values the lower one of the middle two, with its index."""
    if dim is None:
        return np.sort(x.reshape(-1))[(x.size - 1) // 2]
    order = np.argsort(x, axis=dim, kind="stable")
    index = np.take(order, [(x.shape[dim] - 1) // 2], axis=dim)
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def running(x, dim, better):
    """Running extremum and the index of the last element that attains it."""
    if x.ndim == 0:
        return x, np.zeros((), "i8")
    moved = np.moveaxis(x, dim, 0)
    values, index = np.array(moved), np.zeros(moved.shape, "i8")
    for i in range(1, moved.shape[0]):
        wins = better(moved[i], values[i - 1]) | np.isnan(moved[i])
        values[i] = np.where(wins, moved[i], values[i - 1])
        index[i] = np.where(wins, i, index[i - 1])
    return np.moveaxis(values, 0, dim), np.moveaxis(index, 0, dim)


# Shapes and conversions


def cast(x, to):
    """x in another dtype: a DType, Options, NumPy dtype or array. Fractions are cut, integers wrap, zero is false."""
    to = getattr(to, "dtype", to)
    kind = np.dtype(getattr(to, "working", to))
    if kind.kind != "c" and np.iscomplexobj(x):
        x = x.real if kind.kind != "b" else x != 0
    if kind.kind == "b":
        return x != 0
    if kind.kind in "iu" and x.dtype.kind == "f":
        x = np.trunc(x).astype("i8")
    return x.astype(kind)


def reinterpreted(x, dtype):
    """The bytes of float32 numbers read as another dtype."""
    return np.ascontiguousarray(x, "f4").view(dtype.memory)


def squeezed(x, dim=None):
    if dim is None:
        return np.squeeze(x)
    dims = [d for d in (dim if isinstance(dim, list) else [dim]) if x.ndim and x.shape[d] == 1]
    return np.squeeze(x, tuple(dims)) if dims else x


def split_every(x, size, dim):
    return np.split(x, range(size, x.shape[dim], size), dim)


def padded_like_torch(x, pad, mode, value):
    """Pairs of widths from the last dimension on; negative ones cut."""
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape))
    widths = [(max(a, 0), max(b, 0)) for a, b in pairs]
    kinds = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return np.pad(x[cut], widths, kinds[mode]) if mode in kinds else np.pad(x[cut], widths, constant_values=value)


def embedded_diagonal(x, offset, dim1, dim2):
    n = x.shape[-1] + abs(offset)
    out = np.zeros(x.shape[:-1] + (n, n), x.dtype)
    at = np.arange(x.shape[-1])
    out[..., at + max(-offset, 0), at + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def masked_scatter(x, mask, source):
    out, mask = np.array(x), np.broadcast_to(mask, x.shape)
    out[mask] = source.reshape(-1)[: np.count_nonzero(mask)]
    return out


def put(x, index, source, accumulate=False):
    out = x.reshape(-1).copy()
    if accumulate:
        np.add.at(out, index, source)
    else:
        out[index] = source
    return out.reshape(x.shape)


def cross(a, b, dim=None):
    a, b = np.broadcast_arrays(a, b)
    dim = a.shape.index(3) if dim is None else dim
    return np.cross(a, b, axis=dim)


# Sorting


def stable_sort(x, dim=-1, descending=False, stable=None):
    """Values and indices; NaN is the largest, equal entries keep their order."""
    if x.ndim == 0:
        return x, np.zeros((), "i8")
    if descending:
        order = x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    else:
        order = np.argsort(x, axis=dim, kind="stable")
    return np.take_along_axis(x, order, dim), order


def topk(x, k, dim=-1, largest=True, sorted=True):
    values, order = stable_sort(x, dim, largest)
    return np.take(values, range(k), dim), np.take(order, range(k), dim)


def kthvalue(x, k, dim=-1, keepdim=False):
    if x.ndim == 0:
        return x, np.zeros((), "i8")
    values, order = stable_sort(x, dim)
    at = [k - 1] if keepdim else k - 1
    return np.take(values, at, dim), np.take(order, at, dim)


def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    nothing = np.zeros(0, "i8")
    inverse = inverse.reshape(-1 if dim is not None else x.shape)
    return values, inverse if return_inverse else nothing, counts if return_counts else nothing


def unique_consecutive(x, return_inverse=False, return_counts=False, dim=None):
    rows = x.reshape(-1, 1) if dim is None else np.moveaxis(x, dim, 0).reshape(x.shape[dim], -1)
    new = np.ones(len(rows), bool)
    new[1:] = (rows[1:] != rows[:-1]).any(1)
    kept = np.flatnonzero(new)
    values = x.reshape(-1)[kept] if dim is None else np.take(x, kept, dim)
    inverse = np.cumsum(new) - 1
    nothing = np.zeros(0, "i8")
    inverse = inverse.reshape(x.shape) if dim is None else inverse
    return (
        values,
        inverse if return_inverse else nothing,
        np.diff(np.append(kept, len(rows))) if return_counts else nothing,
    )


def searchsorted(sequence, x, out_int32=False, right=False, side=None, sorter=None):
    side = side or ("right" if right else "left")
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, x, side))
    rows = [
        np.searchsorted(a, b, side)
        for a, b in zip(sequence.reshape(-1, sequence.shape[-1]), x.reshape(-1, x.shape[-1]))
    ]
    return np.stack(rows).reshape(x.shape)
