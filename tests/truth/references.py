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


# Networks: convolutions, pooling, normalisations of channels, attention, recurrent layers


def _spatial(values, rank):
    return list(values) * rank if len(values) == 1 else list(values)


def convolution(x, w, b=None, stride=(1,), padding=(0,), dilation=(1,), transposed=False, output_padding=(0,), groups=1):
    """Adds up what each entry of the kernel contributes, for all places at once."""
    rank = w.ndim - 2
    stride, padding, dilation, more = (_spatial(v, rank) for v in (stride, padding, dilation, output_padding))
    kernel = w.shape[2:]
    if transposed:
        outputs = w.shape[1] * groups
        full = [(n - 1) * s + d * (k - 1) + 1 + m
                for n, s, d, k, m in zip(x.shape[2:], stride, dilation, kernel, more)]
        out = np.zeros((x.shape[0], groups, w.shape[1], *full), np.result_type(x, w))
        xs = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
        ws = w.reshape(groups, -1, *w.shape[1:])
        for at in np.ndindex(*kernel):
            places = tuple(slice(a * d, a * d + (n - 1) * s + 1, s)
                           for a, d, n, s in zip(at, dilation, x.shape[2:], stride))
            out[(..., *places)] += np.einsum("ngc...,gco->ngo...", xs, ws[(slice(None), slice(None), slice(None), *at)])
        cut = tuple(slice(p, n - p) for p, n in zip(padding, full))
        out = out.reshape(x.shape[0], outputs, *full)[(..., *cut)]
    else:
        padded = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
        size = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(padded.shape[2:], dilation, kernel, stride)]
        out = np.zeros((x.shape[0], groups, w.shape[0] // groups, *size), np.result_type(x, w))
        xs = padded.reshape(x.shape[0], groups, x.shape[1] // groups, *padded.shape[2:])
        ws = w.reshape(groups, -1, *w.shape[1:])
        for at in np.ndindex(*kernel):
            places = tuple(slice(a * d, a * d + (n - 1) * s + 1, s) for a, d, n, s in zip(at, dilation, size, stride))
            out += np.einsum("ngc...,goc->ngo...", xs[(..., *places)], ws[(slice(None), slice(None), slice(None), *at)])
        out = out.reshape(x.shape[0], w.shape[0], *size)
    return out if b is None else out + b.reshape(-1, *[1] * rank)


def conv(rank):
    """The reference of conv1d, conv2d and conv3d."""

    def f(x, w, b=None, stride=(1,), padding=(0,), dilation=(1,), groups=1):
        single = x.ndim == rank + 1
        x = x[None] if single else x
        if isinstance(padding, str):
            dilation = _spatial(dilation, rank)
            all_of_it = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, w.shape[2:])]
            x = np.pad(x, [(0, 0), (0, 0)] + [(n // 2, n - n // 2) for n in all_of_it])
            padding = (0,)
        out = convolution(x, w, b, stride, padding, dilation, False, (0,), groups)
        return out[0] if single else out

    return f


def conv_transpose(rank):
    def f(x, w, b=None, stride=(1,), padding=(0,), output_padding=(0,), groups=1, dilation=(1,)):
        single = x.ndim == rank + 1
        out = convolution(x[None] if single else x, w, b, stride, padding, dilation, True, output_padding, groups)
        return out[0] if single else out

    return f


def convolution_weight_grad(g, x, size, stride, padding, dilation, transposed, groups):
    """From the definition: the sum over outputs of gradient times what the weight's entry multiplied."""
    out = np.zeros(size)
    for at in np.ndindex(*size):
        one = np.zeros(size)
        one[at] = 1
        extra = (0,)
        if transposed:
            rank = len(size) - 2
            s, p, d = (_spatial(v, rank) for v in (stride, padding, dilation))
            extra = [g.shape[i + 2] - ((x.shape[i + 2] - 1) * s[i] - 2 * p[i] + d[i] * (size[i + 2] - 1) + 1)
                     for i in range(rank)]
        out[at] = (g * convolution(x, one, None, stride, padding, dilation, transposed, extra, groups)).sum()
    return out


def _windows(size, kernel, stride, padding, dilation, outputs):
    """For each output along one dim, the places of the input that its window holds (some may lie outside)."""
    if kernel is None:
        return [list(range(o * size // outputs, -(-((o + 1) * size) // outputs))) for o in range(outputs)]
    return [[o * stride - padding + k * dilation for k in range(kernel)] for o in range(outputs)]


def pooled(x, windows, fold):
    """`fold(values, places, window sizes)` of every window of every channel."""
    space = x.shape[2:]
    shape = x.shape[:2] + tuple(len(w) for w in windows)
    results = None
    for at in np.ndindex(*shape[2:]):
        per_dim = [[p for p in windows[d][at[d]] if 0 <= p < space[d]] for d in range(len(space))]
        places = np.array(list(itertools.product(*per_dim)))
        flat = np.ravel_multi_index(places.T, space)
        values = x.reshape(*x.shape[:2], math.prod(space))[:, :, flat]
        made = fold(values, flat, [windows[d][at[d]] for d in range(len(space))])
        if results is None:
            results = [np.zeros(shape, np.asarray(m).dtype) for m in made]
        for r, m in zip(results, made):
            r[(slice(None), slice(None), *at)] = m
    return results


def _pooled_size(n, k, s, p, d, ceil):
    room = n + 2 * p - d * (k - 1) - 1
    out = (-(-room // s) if ceil else room // s) + 1
    return out - 1 if ceil and (out - 1) * s >= n + p else out


def max_pool(rank):
    def f(x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        single = x.ndim == rank + 1
        x = x[None] if single else x
        kernel = _spatial(kernel, rank)
        stride = _spatial(stride, rank) if len(stride) else kernel
        padding, dilation = _spatial(padding, rank), _spatial(dilation, rank)
        sizes = [_pooled_size(*v, ceil_mode) for v in zip(x.shape[2:], kernel, stride, padding, dilation)]
        return _largest(x, [_windows(*v) for v in zip(x.shape[2:], kernel, stride, padding, dilation, sizes)], single)

    return f


def _largest(x, windows, single):
    def fold(values, flat, _):
        best = np.argmax(values, -1)
        return np.take_along_axis(values, best[..., None], -1)[..., 0], flat[best]

    values, places = pooled(x, windows, fold)
    return (values[0], places[0]) if single else (values, places)


def adaptive_max_pool(rank):
    def f(x, sizes):
        single = x.ndim == rank + 1
        x = x[None] if single else x
        windows = [_windows(n, None, 0, 0, 0, o) for n, o in zip(x.shape[2:], _spatial(sizes, rank))]
        return _largest(x, windows, single)

    return f


def adaptive_avg_pool(rank):
    def f(x, sizes):
        single = x.ndim == rank + 1
        x = x[None] if single else x
        windows = [_windows(n, None, 0, 0, 0, o) for n, o in zip(x.shape[2:], _spatial(sizes, rank))]
        out = pooled(x, windows, lambda v, *_: (v.mean(-1),))[0]
        return out[0] if single else out

    return f


def avg_pool(rank):
    def f(x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
        single = x.ndim == rank + 1
        x = x[None] if single else x
        kernel = _spatial(kernel, rank)
        stride = _spatial(stride, rank) if len(stride) else kernel
        padding = _spatial(padding, rank)
        ones = [1] * rank
        sizes = [_pooled_size(*v, ceil_mode) for v in zip(x.shape[2:], kernel, stride, padding, ones)]
        windows = [_windows(*v) for v in zip(x.shape[2:], kernel, stride, padding, ones, sizes)]

        def fold(values, flat, places):
            count = len(flat)
            if count_include_pad:
                count = math.prod(sum(1 for p in w if p < n + pad) for w, n, pad in zip(places, x.shape[2:], padding))
            return (values.sum(-1) / (divisor_override or count),)

        out = pooled(x, windows, fold)[0]
        return out[0] if single else out

    return f


def _channels(v, x):
    return v.reshape(1, -1, *[1] * (x.ndim - 2))


def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, *ignored):
    dims = (0, *range(2, x.ndim))
    mean, var = (x.mean(dims), x.var(dims)) if training else (running_mean, running_var)
    out = (x - _channels(mean, x)) / np.sqrt(_channels(var, x) + eps)
    out = out if weight is None else out * _channels(weight, x)
    return (out if bias is None else out + _channels(bias, x)), mean, 1 / np.sqrt(var + eps)


def group_norm(x, groups, weight=None, bias=None, eps=1e-5, *ignored):
    rows = x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    out = normalized(rows, (-1,), eps)[0].reshape(x.shape)
    out = out if weight is None else out * _channels(weight, x)
    return out if bias is None else out + _channels(bias, x)


def instance_norm(x, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, *ignored):
    if not use_input_stats:
        return batch_norm(x, weight, bias, running_mean, running_var, False, momentum, eps)[0]
    out = normalized(x, tuple(range(2, x.ndim)), eps)[0]
    out = out if weight is None else out * _channels(weight, x)
    return out if bias is None else out + _channels(bias, x)


def softmax_of(x, axis=-1):
    with np.errstate(invalid="ignore"):
        top = x.max(axis, keepdims=True)
        e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis, keepdims=True)
    return np.where(total > 0, e / np.where(total > 0, total, 1), 0)


def cross_entropy(x, target, weight=None, reduction=MEAN, ignore_index=-100, label_smoothing=0.0):
    axis = 0 if x.ndim == 1 else 1
    logs = np.moveaxis(x - np.log(np.exp(x - x.max(axis, keepdims=True)).sum(axis, keepdims=True))
                       - x.max(axis, keepdims=True), axis, -1)
    classes = logs.shape[-1]
    weights = np.ones(classes) if weight is None else weight
    if target.dtype.kind == "f":
        shares = np.moveaxis(target, axis, -1) * (1 - label_smoothing) + label_smoothing / classes
        loss = -(logs * shares * weights).sum(-1)
        return loss if reduction == NONE else loss.mean() if reduction == MEAN else loss.sum()
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    share = np.where(kept, weights[safe], 0.0)
    loss = -np.take_along_axis(logs, safe[..., None], -1)[..., 0] * share * (1 - label_smoothing)
    loss = loss - np.where(kept, (logs * weights).sum(-1), 0.0) * label_smoothing / classes
    return loss if reduction == NONE else loss.sum() / share.sum() if reduction == MEAN else loss.sum()


def attention(q, k, v, mask=None, dropout=0.0, causal=False, scale=None, enable_gqa=False):
    if enable_gqa or (q.ndim == k.ndim == 4 and q.shape[1] > k.shape[1] > 1):
        k, v = (np.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    s = np.einsum("...le,...se->...ls", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    return np.einsum("...ls,...se->...le", softmax_of(s), v)


def added_product(x, a, b, beta=1, alpha=1):
    return alpha * (a @ b) + (beta * x if beta else 0)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def sigmoid_of(x):
    return 1 / (1 + np.exp(-x))


def lstm_steps(gates, w_hh, h, c, reverse):
    hs, cs, acts = [None] * len(gates), [None] * len(gates), [None] * len(gates)
    for t in reversed(range(len(gates))) if reverse else range(len(gates)):
        i, f, g, o = np.split(gates[t] + h @ w_hh.T, 4, -1)
        i, f, g, o = sigmoid_of(i), sigmoid_of(f), np.tanh(g), sigmoid_of(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        hs[t], cs[t], acts[t] = h, c, np.concatenate([i, f, g, o], -1)
    return np.array(hs), np.array(cs), np.array(acts)


def gru_steps(gates, w_hh, b_hh, h, reverse):
    hs, acts = [None] * len(gates), [None] * len(gates)
    for t in reversed(range(len(gates))) if reverse else range(len(gates)):
        sums = h @ w_hh.T + (0 if b_hh is None else b_hh)
        (xr, xz, xn), (hr, hz, hn) = np.split(gates[t], 3, -1), np.split(sums, 3, -1)
        r, z = sigmoid_of(xr + hr), sigmoid_of(xz + hz)
        n = np.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        hs[t], acts[t] = h, np.concatenate([r, z, n, hn], -1)
    return np.array(hs), np.array(acts)


def recurrent(kind):
    """The reference of lstm, gru, rnn_tanh and rnn_relu, without dropout."""

    def f(x, hx, params, biases, layers, dropout, train, bidirectional, batch_first):
        states = list(hx) if kind == "lstm" else [hx]
        x = np.swapaxes(x, 0, 1) if batch_first else x
        each, directions, lasts = 4 if biases else 2, 2 if bidirectional else 1, [[] for _ in states]
        for layer in range(layers):
            made = []
            for d in range(directions):
                index = layer * directions + d
                w_ih, w_hh, *b = params[index * each : (index + 1) * each]
                b_ih, b_hh = b if b else (0, 0)
                gates = x @ w_ih.T + b_ih
                last = 0 if d else -1
                if kind == "lstm":
                    h, c, _ = lstm_steps(gates + b_hh, w_hh, states[0][index], states[1][index], d == 1)
                    lasts[1].append(c[last])
                elif kind == "gru":
                    h, _ = gru_steps(gates, w_hh, b_hh, states[0][index], d == 1)
                else:
                    act = np.tanh if kind == "tanh" else lambda v: np.maximum(v, 0)
                    h, now = [None] * len(x), states[0][index]
                    for t in reversed(range(len(x))) if d else range(len(x)):
                        h[t] = now = act(gates[t] + now @ w_hh.T + b_hh)
                    h = np.array(h)
                lasts[0].append(h[last])
                made.append(h)
            x = np.concatenate(made, -1)
        return (np.swapaxes(x, 0, 1) if batch_first else x, *(np.array(s) for s in lasts))

    return f


def numerical_gradients(f, grads, args, which):
    """What `which` of `args` do to the sum of results times `grads`, by differences of sixth order in double precision."""
    made = []
    for w in which:
        base = np.array(args[w], np.float64)
        out = np.zeros(base.shape)
        for at in np.ndindex(*base.shape):
            total = 0.0
            for step, factor in ((1, 45), (2, -9), (3, 1)):
                for sign in (1, -1):
                    moved = base.copy()
                    moved[at] += sign * step * 5e-3
                    results = f(*args[:w], moved, *args[w + 1 :])
                    results = results if isinstance(results, tuple) else (results,)
                    total += sign * factor * sum((g * r).sum() for g, r in zip(grads, results) if g is not None)
            out[at] = total / (60 * 5e-3)
        made.append(out)
    return tuple(made) if len(made) > 1 else made[0]
