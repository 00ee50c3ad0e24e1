"""Arrays from nothing, from Python's values and from other libraries."""

import math

import facula

from ._data_types import _is

_native = facula._native


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """Numbers from `start` up to `stop` in steps; one argument is the stop."""
    if stop is None:
        start, stop = 0, start
    if (step > 0 and stop <= start) or (step < 0 and stop >= start):
        if dtype is None:
            whole = all(isinstance(x, int) for x in (start, stop, step))
            dtype = facula.int64 if whole else facula.get_default_dtype()
        return _native.empty((0,), dtype=dtype, device=device)
    return _native.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of what `obj` holds: Python numbers, nested sequences, arrays of any library."""
    if _is(obj):
        same = (dtype is None or obj.dtype is dtype) and (device is None or obj.device == facula.device(device))
        if same:
            return obj.clone() if copy else obj
        if copy is False:
            raise ValueError("asarray: another dtype or device needs a copy; say copy=None or copy=True")
        return obj.to(device=device, dtype=dtype)
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__dlpack__"):
        shared = facula.as_tensor(obj) if hasattr(obj, "__array_interface__") else facula.from_dlpack(obj)
        return asarray(shared, dtype=dtype, device=device, copy=copy)
    if copy is False:
        raise ValueError("asarray: Python's values have no memory to share; say copy=None or copy=True")
    return facula.tensor(obj, dtype=dtype, device=device)


def empty(shape, *, dtype=None, device=None):
    """An array whose values are undefined."""
    return _native.empty(_shape(shape), dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """An array of the shape of another whose values are undefined."""
    return _native.empty_like(x, dtype=dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on the k-th diagonal, zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    made = _native.zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        made.diagonal(k).fill_(1)
    return made


def from_dlpack(x, /, *, device=None, copy=None):
    """An array over the memory of another library's array, or a copy of it."""
    made = facula.from_dlpack(x)
    if device is not None and made.device != facula.device(device):
        if copy is False:
            raise ValueError(f"from_dlpack: an array on {made.device} does not get to {device} without a copy")
        return made.to(device=device)
    return made.clone() if copy else made


def full(shape, fill_value, *, dtype=None, device=None):
    """One value everywhere."""
    return _native.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """One value everywhere, in the shape of another array."""
    return _native.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` numbers at equal distances."""
    if isinstance(start, complex) or isinstance(stop, complex):
        parts = [
            linspace(complex(start).real, complex(stop).real, num, device=device, endpoint=endpoint),
            linspace(complex(start).imag, complex(stop).imag, num, device=device, endpoint=endpoint),
        ]
        made = _native.complex(*parts)
        return made if dtype is None else made.to(dtype)
    if endpoint or num == 0:
        return _native.linspace(start, stop, num, dtype=dtype, device=device)
    return _native.linspace(start, start + (stop - start) * ((num - 1) / num), num, dtype=dtype, device=device)


def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid."""
    if len({x.dtype for x in arrays}) > 1:
        raise ValueError("meshgrid: the arrays must have one dtype")
    return list(_native.meshgrid(list(arrays), indexing=indexing)) if arrays else []


def ones(shape, *, dtype=None, device=None):
    """Ones."""
    return _native.ones(_shape(shape), dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones in the shape of another array."""
    return _native.ones_like(x, dtype=dtype, device=device)


def tril(x, /, *, k=0):
    """The lower triangles of matrices; zeros above the k-th diagonal."""
    return _native.tril(x, k)


def triu(x, /, *, k=0):
    """The upper triangles of matrices; zeros below the k-th diagonal."""
    return _native.triu(x, k)


def zeros(shape, *, dtype=None, device=None):
    """Zeros."""
    return _native.zeros(_shape(shape), dtype=dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros in the shape of another array."""
    return _native.zeros_like(x, dtype=dtype, device=device)


e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
__all__ = [name for name in dir() if not name.startswith("_") and name not in ("facula", "math")]
