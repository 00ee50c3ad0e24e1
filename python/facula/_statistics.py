"""Statistics and integrals of samples, composed of sorting, sums and products."""
from __future__ import annotations

from collections import namedtuple

from . import _native
from ._arguments import give, known_any, need_tensor
from ._native import Tensor, float32, float64

__all__ = [
    "cov", "corrcoef", "quantile", "nanquantile", "nanmedian", "mode", "trapezoid", "trapz", "cumulative_trapezoid",
]


# Results with names, which are found and print like those of the ops.

class _Median(namedtuple("nanmedian", ("values", "indices"))):
    __slots__ = ()
    __module__ = "facula.return_types"

    def __repr__(self):
        return f"facula.return_types.{type(self).__name__}(\nvalues={self.values!r},\nindices={self.indices!r})"


class _Mode(namedtuple("mode", ("values", "indices"))):
    __slots__ = ()
    __module__ = "facula.return_types"
    __repr__ = _Median.__repr__


_Median.__name__ = _Median.__qualname__ = "nanmedian"
_Mode.__name__ = _Mode.__qualname__ = "mode"


def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariances of variables (rows) over observations (columns), which may count several times or weigh more."""
    need_tensor("cov", input=input)
    if input.dim() > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {input.dim()} "
                           "dimensions")
    if input.dtype is _native.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape(1, -1) if input.dim() < 2 else input
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_native.get_default_dtype())
    count = x.shape[1]
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        need_tensor("cov", **{name: given})
        if given.dim() > 1 or given.numel() != count:
            raise RuntimeError(f"cov(): expected {name} to be a vector with an entry for each of {count} observations, "
                               f"got shape {tuple(given.shape)}")
        if (given.is_floating_point() or given.is_complex()) and name == "fweights":
            raise RuntimeError(f"cov(): expected fweights to have integral dtype but got {given.dtype}")
        if not given.is_floating_point() and name == "aweights":
            raise RuntimeError(f"cov(): expected aweights to have floating point dtype but got {given.dtype}")
        if known_any(given < 0):
            raise RuntimeError(f"cov(): {name} cannot be negative")
        weights = given.reshape(-1) if weights is None else weights * given.reshape(-1)
    if weights is None:
        total, mean = count, x.mean(1, keepdim=True)
    else:
        total = weights.sum()
        if count and known_any(total == 0):
            raise ZeroDivisionError("cov(): weights sum to zero, can't be normalized")
        mean = (x * weights).sum(1, keepdim=True) / total
    if aweights is None or correction == 0:
        norm = total - correction
    else:
        norm = total - correction * (weights * aweights.reshape(-1)).sum() / total
    centred = x - mean
    other = centred if weights is None else centred * weights
    made = centred @ other.to(centred.dtype).conj().transpose(0, 1)
    made = made / (norm.clamp_min(0) if isinstance(norm, Tensor) else max(norm, 0))
    return made.reshape(()) if input.dim() < 2 else made


def corrcoef(input):
    """The correlations of variables (rows) over observations (columns)."""
    need_tensor("corrcoef", input=input)
    if input.dim() > 2:
        raise RuntimeError("corrcoef(): expected input to have two or fewer dimensions but got an input with "
                           f"{input.dim()} dimensions")
    made = cov(input)
    if made.dim() == 0:
        return made / made
    deviation = (made.diagonal().real if made.is_complex() else made.diagonal()).sqrt()
    made = made / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if made.is_complex():
        return _native.complex(made.real.clamp(-1, 1), made.imag.clamp(-1, 1))
    return made.clamp(-1, 1)


def _quantile(function, input, q, dim, keepdim, interpolation, out, ignore_nan):
    need_tensor(function, input=input)
    if input.dtype not in (float32, float64):
        raise RuntimeError(f"{function}(): input tensor must be either float or double dtype, got {input.dtype}")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(f"{function}(): interpolation must be one of linear, lower, higher, midpoint or nearest, "
                           f"but got {interpolation}")
    if isinstance(q, Tensor):
        if q.dtype is not input.dtype:
            raise RuntimeError(f"{function}(): q tensor must be same dtype as the input tensor, got {q.dtype} and "
                               f"{input.dtype}")
        if q.dim() > 1:
            raise RuntimeError(f"{function}(): q must be a scalar or 1D tensor, got {q.dim()} dims")
        q = q.double()
    else:
        q = _native.tensor(float(q), dtype=float64, device=input.device)
    if input.numel() == 0:
        raise RuntimeError(f"{function}(): input tensor must be non-empty")
    if known_any((q < 0) | (q > 1) | q.isnan()):
        raise RuntimeError(f"{function}(): q values must be in the range [0, 1]")
    rank = input.dim()
    if dim is None:
        x = input.reshape(-1)
        kept = (1,) * rank
    else:
        x = input.movedim(dim, -1) if rank else input.reshape(1)
        kept = tuple(1 if i == dim % rank else n for i, n in enumerate(input.shape)) if rank else ()
    x, _ = x.sort(-1)
    size = x.shape[-1]
    if ignore_nan:
        last = (_native.isfinite(x) | _native.isinf(x)).sum(-1, keepdim=True).clamp_min(1) - 1
    else:  # NaN is sorted to the end, and one of them makes the result NaN
        x = _native.where(_native.isnan(x[..., -1:]), x[..., -1:], x)
        last = size - 1
    place = q.reshape(-1) * last
    place = place.expand(x.shape[:-1] + (q.numel(),))
    if interpolation == "lower":
        made = x.gather(-1, place.floor().long())
    elif interpolation == "higher":
        made = x.gather(-1, place.ceil().long())
    elif interpolation == "nearest":
        made = x.gather(-1, place.round().long())
    else:
        below = place.floor()
        low, high = x.gather(-1, below.long()), x.gather(-1, place.ceil().long())
        share = (place - below).to(x.dtype)
        if interpolation == "midpoint":
            share = _native.where(share == 0, share, 0.5)
        # Two equal infinities have no difference.
        made = _native.where((share == 0) | ((low == high) & low.isinf()), low, _native.lerp(low, high, share))
    made = made.movedim(-1, 0)
    if keepdim:
        made = made.reshape((q.numel(),) + kept)
    if q.dim() == 0:
        made = made.squeeze(0)
    return give(made, out)


def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    """The values below which the shares `q` of the entries lie; NaN where one of them is NaN."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation, out, False)


def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    """Quantiles that leave NaN out."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, out, True)


def nanmedian(input, dim=None, keepdim=False, *, out=None):
    """The median (of two the lower) without NaN: of all entries, or along `dim` with its place."""
    need_tensor("nanmedian", input=input)
    if dim is None:
        flat = input.reshape(-1)
        if not flat.numel():
            none = flat.sum() * float("nan") if flat.is_floating_point() else flat.new_zeros(())
            return give(none, out)
        return give(nanmedian(flat, 0).values, out)
    if input.dim() and input.shape[dim] == 0:
        raise IndexError(f"nanmedian(): Expected reduction dim {dim} to have non-zero size.")
    _, order = input.detach().sort(dim)
    count = (~_native.isnan(input)).sum(dim, keepdim=True)
    indices = order.gather(dim, ((count - 1) // 2).clamp_min(0))
    values = input.gather(dim, indices)
    if not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return _Median(values, indices) if out is None else _Median(give(values, out[0]), give(indices, out[1]))


def mode(input, dim=-1, keepdim=False, *, out=None):
    """The most frequent value along `dim`, of equally frequent ones the smallest, and a place where it is."""
    need_tensor("mode", input=input)
    if not isinstance(dim, int):
        raise TypeError(f"mode(): dim must be an int, not {type(dim).__name__}")
    if input.dim() == 0:
        if dim not in (-1, 0):
            raise IndexError(f"mode(): Dimension out of range (expected to be in range of [-1, 0], but got {dim})")
        values, indices = input.clone(), _native.zeros((), dtype=_native.int64, device=input.device)
    else:
        if input.shape[dim] == 0:
            raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
        found, order = input.detach().movedim(dim, -1).sort(stable=True, dim=-1)
        places = _native.arange(found.shape[-1], device=input.device).expand(found.shape)
        fresh = _native.ones_like(found, dtype=_native.bool)
        fresh[..., 1:] = found[..., 1:] != found[..., :-1]
        start = _native.where(fresh, places, 0).cummax(-1)[0]
        longest = (places - start).argmax(-1, keepdim=True)
        indices = order.gather(-1, longest).movedim(-1, dim)
        values = input.gather(dim, indices)
        if not keepdim:
            values, indices = values.squeeze(dim), indices.squeeze(dim)
    return _Mode(values, indices) if out is None else _Mode(give(values, out[0]), give(indices, out[1]))


def _panels(function, y, x, dx, dim):
    """The areas between neighbours."""
    need_tensor(function, y=y)
    if y.dtype is _native.bool:
        raise RuntimeError(f"{function}(): received a bool input for y, but bool is not supported")
    if x is not None and dx is not None:
        raise TypeError(f"{function}(): give the places x or their distance dx, not both")
    size = y.shape[dim]
    if size == 0:
        return _native.zeros_like(y)
    pairs = y.narrow(dim, 1, size - 1) + y.narrow(dim, 0, size - 1)
    if x is None:
        return pairs * ((1 if dx is None else dx) / 2)
    need_tensor(function, x=x)
    if x.dim() == 1:
        if x.shape[0] != size:
            raise RuntimeError(f"{function}(): there must be one `x` value for each sample point: got {x.shape[0]} for "
                               f"{size}")
        step = x.diff().reshape((-1,) + (1,) * (y.dim() - 1 - dim % y.dim()))
    else:
        step = x.diff(dim=dim)
    return pairs * step / 2


def trapezoid(y, x=None, *, dx=None, dim=-1):
    """The integral of samples `y` at places `x`, or `dx` apart, with straight lines between them."""
    return _panels("trapezoid", y, x, dx, dim).sum(dim)


trapz = trapezoid


def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1):
    """The integrals of samples `y` up to every place but the first."""
    return _panels("cumulative_trapezoid", y, x, dx, dim).cumsum(dim)
