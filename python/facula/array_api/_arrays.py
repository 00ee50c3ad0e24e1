"""Functions of whole arrays: statistics, searching, sorting, sets, shapes, matrix products, tests of all elements."""

import builtins
import math
from typing import NamedTuple

import facula

from ._data_types import _UNSIGNED, _holds, _is, _together, result_type

_native = facula._native


def _axes(x, axis):
    """The dims of an axis argument, counted from the front; all of them for None."""
    if axis is None:
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    for each in given:
        if not -x.ndim <= each < builtins.max(x.ndim, 0):
            raise IndexError(f"axis {each} is out of range for an array of {x.ndim} dimensions")
    dims = tuple(each % x.ndim for each in given)
    if len(set(dims)) != len(dims):
        raise ValueError(f"axis {axis} names a dimension twice")
    return dims


def _kept(x, dims):
    return tuple(1 if d in dims else n for d, n in enumerate(x.shape))


def _flattened(x, dims):
    """The array with those dims as one, at the end: for ops that take one dim only."""
    others = [d for d in range(x.ndim) if d not in dims]
    sizes = [*(x.shape[d] for d in others), math.prod(x.shape[d] for d in dims)]
    return _native.reshape(_native.permute(x, [*others, *dims]), sizes)


def _along(x, axis, keepdims, op):
    """An op that reduces the last dim, over any axes."""
    dims = _axes(x, axis)
    made = op(_flattened(x, dims))
    return _native.reshape(made, _kept(x, dims)) if keepdims else made


# Statistics.


def _sum_dtype(x, dtype):
    """Sums and products of small integers are made in 64 bits, with or without a sign."""
    if dtype is not None:
        return dtype
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return x.dtype
    return facula.uint64 if _holds(_UNSIGNED, x.dtype) else facula.int64


def max(x, /, *, axis=None, keepdims=False):
    """The largest element."""
    dims = _axes(x, axis)
    return _native.amax(x, dims, keepdims) if dims else x.clone()


def min(x, /, *, axis=None, keepdims=False):
    """The smallest element."""
    dims = _axes(x, axis)
    return _native.amin(x, dims, keepdims) if dims else x.clone()


def mean(x, /, *, axis=None, keepdims=False):
    """The arithmetic mean."""
    dims = _axes(x, axis)
    return _native.mean(x, dims, keepdims) if dims else x.clone()


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum."""
    dims, dtype = _axes(x, axis), _sum_dtype(x, dtype)
    return _native.sum(x, dims, keepdims, dtype=dtype) if dims else x.to(dtype, copy=True)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product."""
    dtype = _sum_dtype(x, dtype)
    return _along(x, axis, keepdims, lambda flat: _native.prod(flat, -1, dtype=dtype))


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance; `correction` is taken from the number of elements."""
    dims = _axes(x, axis)
    if not dims:
        return x - x
    return _native.var(x, dims, correction=correction, keepdim=keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation; `correction` is taken from the number of elements."""
    return _native.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _cumulative(x, axis, dtype, include_initial, op, first):
    if axis is None:
        if x.ndim > 1:
            raise ValueError("an array of several dimensions needs an axis")
        axis = 0
    (dim,) = _axes(_native.reshape(x, (1,)) if not x.ndim else x, axis)
    dtype = _sum_dtype(x, dtype)
    made = op(_native.reshape(x, (1,)) if not x.ndim else x, dim, dtype=dtype)
    if include_initial:
        sizes = [1 if d == dim else n for d, n in enumerate(made.shape)]
        made = _native.cat([_native.full(sizes, first, dtype=dtype, device=x.device), made], dim)
    return made


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Products of the elements so far."""
    return _cumulative(x, axis, dtype, include_initial, _native.cumprod, 1)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums of the elements so far."""
    return _cumulative(x, axis, dtype, include_initial, _native.cumsum, 0)


# Tests of all elements, and differences.


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements hold."""
    return _along(x, axis, keepdims, lambda flat: _native.all(flat.to(facula.bool), -1))


def any(x, /, *, axis=None, keepdims=False):
    """Whether one element holds."""
    return _along(x, axis, keepdims, lambda flat: _native.any(flat.to(facula.bool), -1))


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours, `n` times."""
    return _native.diff(x, n, axis, prepend, append)


# Searching.


def _arg(x, axis, keepdims, op):
    if axis is None:
        made = op(_native.reshape(x, (-1,)), 0)
        return _native.reshape(made, (1,) * x.ndim) if keepdims else made
    _axes(x, axis)
    return op(x, axis, keepdims)


def argmax(x, /, *, axis=None, keepdims=False):
    """Where the largest element is."""
    return _arg(x, axis, keepdims, _native.argmax)


def argmin(x, /, *, axis=None, keepdims=False):
    """Where the smallest element is."""
    return _arg(x, axis, keepdims, _native.argmin)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not zero."""
    return sum(x != 0, axis=axis, keepdims=keepdims)


def nonzero(x, /):
    """Where the elements are not zero, one array for each dimension."""
    if not x.ndim:
        raise ValueError("nonzero: an array without dimensions has no places; reshape it to (1,) first")
    return tuple(_native.unbind(_native.nonzero(x), 1))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where x2 must be put into x1 to keep its order."""
    x1, x2 = _together(x1, x2)
    return _native.searchsorted(x1, x2, side=side, sorter=sorter)


def where(condition, x1, x2, /):
    """Elements of x1 where the condition holds, of x2 elsewhere."""
    if not (_is(x1) or _is(x2)):
        x1 = facula.tensor(x1, device=condition.device)
    x1, x2 = _together(x1, x2)
    return _native.where(condition, x1, x2)


# Sorting and sets.


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """Where the elements stand in order."""
    return _native.argsort(x, stable=stable, dim=axis, descending=descending)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements in order."""
    return _native.sort(x, stable=stable, dim=axis, descending=descending)[0]


class UniqueAll(NamedTuple):
    values: object
    indices: object
    inverse_indices: object
    counts: object


class UniqueCounts(NamedTuple):
    values: object
    counts: object


class UniqueInverse(NamedTuple):
    values: object
    inverse_indices: object


def _unique(x, inverse, counts):
    """Values, places and counts; complex numbers go by their real parts, then by their imaginary parts."""
    if not x.dtype.is_complex:
        return _native.unique(x, True, inverse, counts)
    pairs = _native.view_as_real(_native.reshape(x, (-1,)))
    rows, places, numbers = _native.unique_dim(pairs, 0, True, inverse, counts)
    return _native.view_as_complex(rows), _native.reshape(places, x.shape) if inverse else places, numbers


def unique_all(x, /):
    """The different values in order, where each first occurs, which of them each element is, how often they occur."""
    values, inverse, counts = _unique(x, True, True)
    order = _native.argsort(_native.reshape(inverse, (-1,)), stable=True)
    first = _native.cumsum(counts, 0) - counts
    return UniqueAll(values, _native.index_select(order, 0, first), inverse, counts)


def unique_counts(x, /):
    """The different values in order and how often they occur."""
    values, _, counts = _unique(x, False, True)
    return UniqueCounts(values, counts)


def unique_inverse(x, /):
    """The different values in order and which of them each element is."""
    values, inverse, _ = _unique(x, True, False)
    return UniqueInverse(values, inverse)


def unique_values(x, /):
    """The different values in order."""
    return _unique(x, False, False)[0]


# Shapes.


def broadcast_arrays(*arrays):
    """The arrays in their common shape."""
    return list(_native.broadcast_tensors(list(arrays)))


def broadcast_to(x, /, shape):
    """The array in a larger shape, its elements repeated."""
    return _native.broadcast_to(x, tuple(shape))


def concat(arrays, /, *, axis=0):
    """Arrays one after another along a dimension; flattened when `axis` is None."""
    dtype = result_type(*arrays)
    arrays = [x if x.dtype is dtype else x.to(dtype) for x in arrays]
    if axis is None:
        return _native.cat([_native.reshape(x, (-1,)) for x in arrays], 0)
    return _native.cat(arrays, axis)


def expand_dims(x, /, *, axis=0):
    """The array with a new dimension of size 1."""
    return _native.unsqueeze(x, axis)


def flip(x, /, *, axis=None):
    """The elements in reverse order."""
    return _native.flip(x, _axes(x, axis))


def moveaxis(x, source, destination, /):
    """Dimensions moved to other places."""
    return _native.movedim(x, source, destination)


def permute_dims(x, /, axes):
    """The dimensions in another order."""
    return _native.permute(x, tuple(axes))


def repeat(x, repeats, /, *, axis=None):
    """Each element several times."""
    if not _is(repeats) and not isinstance(repeats, int):
        repeats = facula.tensor(repeats, device=x.device)
    if _is(repeats):
        repeats = repeats.to(facula.int64)
        size = math.prod(x.shape) if axis is None else x.shape[axis]
        if repeats.ndim == 1 and repeats.shape[0] == 1 and size != 1:
            repeats = _native.broadcast_to(repeats, (size,))
        if repeats.ndim == 0:
            repeats = int(repeats)
    if axis is None:
        x, axis = _native.reshape(x, (-1,)), 0
    return _native.repeat_interleave(x, repeats, axis)


def reshape(x, /, shape, *, copy=None):
    """The elements in another shape; `copy` says whether memory must or must not be shared."""
    if copy is False:
        try:
            return x.view(tuple(shape))
        except RuntimeError as error:
            raise ValueError(f"reshape: this shape needs a copy; say copy=None or copy=True ({error})") from None
    made = _native.reshape(x, tuple(shape))
    return made.clone() if copy else made


def roll(x, /, shift, *, axis=None):
    """Elements moved along dimensions; those that fall off come back at the other end."""
    if axis is None:
        return _native.reshape(_native.roll(_native.reshape(x, (-1,)), shift, 0), x.shape)
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return _native.roll(x, shift, axis)


def squeeze(x, /, axis):
    """The array without those dimensions, which must have size 1."""
    dims = _axes(x, axis)
    wrong = [d for d in dims if x.shape[d] != 1]
    if wrong:
        raise ValueError(f"squeeze: dimension {wrong[0]} has size {x.shape[wrong[0]]}, not 1")
    return _native.squeeze(x, dims)


def stack(arrays, /, *, axis=0):
    """Arrays along a new dimension."""
    dtype = result_type(*arrays)
    return _native.stack([x if x.dtype is dtype else x.to(dtype) for x in arrays], axis)


def tile(x, repetitions, /):
    """The array laid side by side."""
    return _native.tile(x, tuple(repetitions))


def unstack(x, /, *, axis=0):
    """The slices along a dimension."""
    return tuple(_native.unbind(x, axis))


def take(x, indices, /, *, axis=None):
    """Elements along a dimension."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take: an array of several dimensions needs an axis")
        axis = 0
    size = x.shape[axis]
    flat = _native.reshape(indices, (-1,))
    flat = _native.where(flat < 0, flat + size, flat)
    made = _native.index_select(x, axis, flat)
    if indices.ndim == 1:
        return made
    dim = axis % x.ndim
    return _native.reshape(made, (*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :]))


def take_along_axis(x, indices, /, *, axis=-1):
    """Elements along a dimension, each at a place of its own."""
    size = x.shape[axis]
    indices = indices.to(facula.int64)
    return _native.take_along_dim(x, _native.where(indices < 0, indices + size, indices), axis)


# Matrix products.


def matmul(x1, x2, /):
    """The matrix product."""
    return _native.matmul(*_together(x1, x2))


def matrix_transpose(x, /):
    """The last two dimensions exchanged."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: a matrix has two dimensions, this array has {x.ndim}")
    return _native.transpose(x, -1, -2)


def tensordot(x1, x2, /, *, axes=2):
    """The sum of products over pairs of dimensions."""
    x1, x2 = _together(x1, x2)
    if isinstance(axes, int):
        first, second = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        first, second = (list(each) for each in axes)
    return _native.tensordot(x1, x2, first, second)


def vecdot(x1, x2, /, *, axis=-1):
    """The dot products of vectors along a dimension; the first is conjugated."""
    x1, x2 = _together(x1, x2)
    smaller = builtins.min(x1.ndim, x2.ndim)
    if not -smaller <= axis < builtins.max(smaller, 0):
        raise IndexError(f"vecdot: axis {axis} is out of range for arrays of {x1.ndim} and {x2.ndim} dimensions")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: vectors of {x1.shape[axis]} and {x2.shape[axis]} elements do not fit")
    first = _native.movedim(x1, axis, -1)
    second = _native.movedim(x2, axis, -1)
    if first.dtype.is_complex:
        first = _native.conj(first)
    made = _native.matmul(_native.unsqueeze(first, -2), _native.unsqueeze(second, -1))
    return _native.reshape(made, made.shape[:-2])


__all__ = [
    name
    for name in dir()
    if not name.startswith("_") and name not in ("builtins", "math", "facula", "NamedTuple", "result_type")
    and not name.startswith("Unique")
]
