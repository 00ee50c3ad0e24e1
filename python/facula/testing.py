"""Comparing tensors in tests."""
from __future__ import annotations

import math

from . import _native
from ._native import Tensor

__all__ = ["assert_close", "make_tensor"]

# (relative, absolute) tolerance of each dtype; what is not here must be equal.
_TOLERANCES = {
    _native.float16: (1e-3, 1e-5), _native.bfloat16: (1.6e-2, 1e-5), _native.float32: (1.3e-6, 1e-5),
    _native.float64: (1e-7, 1e-7), _native.complex32: (1e-3, 1e-5), _native.complex64: (1.3e-6, 1e-5),
    _native.complex128: (1e-7, 1e-7),
}


def _as_tensor(value, name):
    if isinstance(value, Tensor):
        return value
    try:
        return _native.as_tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"assert_close(): {name} is no tensor and cannot become one: {type(value).__name__}") from error


def _fail(msg, text):
    if callable(msg):
        text = msg(text)
    elif msg is not None:
        text = msg
    raise AssertionError(text)


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Fails unless `actual` and `expected` have the same shape, dtype and, within the tolerances of the dtype, values.

    Lists, tuples and dicts are compared member by member.
    """
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close(): give rtol and atol together, or neither for those of the dtype")
    keywords = dict(rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device, check_dtype=check_dtype,
                    check_stride=check_stride, msg=msg)
    if isinstance(expected, dict) and isinstance(actual, dict):
        if actual.keys() != expected.keys():
            _fail(msg, f"The keys differ: {sorted(map(str, actual))} and {sorted(map(str, expected))}")
        for key in expected:
            assert_close(actual[key], expected[key], **keywords)
        return
    if (isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple))
            and any(isinstance(item, (Tensor, list, tuple, dict)) for item in (*expected, *actual))):
        if len(actual) != len(expected):
            _fail(msg, f"The lengths differ: {len(actual)} and {len(expected)}")
        for one, other in zip(actual, expected):
            assert_close(one, other, **keywords)
        return

    a, b = _as_tensor(actual, "actual"), _as_tensor(expected, "expected")
    if a.shape != b.shape:
        _fail(msg, f"The shapes differ: {tuple(a.shape)} and {tuple(b.shape)}")
    if check_device and a.device != b.device:
        _fail(msg, f"The devices differ: {a.device} and {b.device}")
    if check_dtype and a.dtype != b.dtype:
        _fail(msg, f"The dtypes differ: {a.dtype} and {b.dtype}")
    if check_stride and a.stride() != b.stride():
        _fail(msg, f"The strides differ: {a.stride()} and {b.stride()}")
    if rtol is None:
        # Of two dtypes the coarser one says how near is near.
        found = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (a, b)]
        rtol, atol = max(f[0] for f in found), max(f[1] for f in found)
    wide = _native.complex128 if a.is_complex() or b.is_complex() else _native.float64
    exact = not (a.is_floating_point() or a.is_complex() or b.is_floating_point() or b.is_complex())
    if exact and rtol == 0 and atol == 0:
        wide = a.dtype if a.dtype == b.dtype else _native.int64
    x, y = a.detach().to("cpu", wide), b.detach().to("cpu", wide)
    close = x == y if exact and rtol == 0 and atol == 0 else _native.isclose(x, y, rtol, atol, equal_nan)
    if bool(close.all()):
        return
    wrong = int((~close).sum())
    difference = (x.to(_native.float64) - y.to(_native.float64)).abs() if not x.is_complex() else (x - y).abs()
    difference = _native.where(close, _native.zeros_like(difference), difference)
    worst = int(_native.where(difference.isnan(), math.inf, difference).flatten().argmax())
    place, rest = [], worst
    for size in reversed(a.shape):
        place.append(rest % size)
        rest //= size
    place = tuple(reversed(place))
    _fail(msg, f"{wrong} of {a.numel()} values differ; the most at {place}: {x[place].item()} and {y[place].item()} "
               f"(allowed: {atol:g} absolute, {rtol:g} relative)" if place else
               f"The values differ: {x.item()} and {y.item()} (allowed: {atol:g} absolute, {rtol:g} relative)")


def make_tensor(*shape, dtype, device="cpu", low=None, high=None, requires_grad=False, noncontiguous=False,
                exclude_zero=False):
    """A tensor of random values in [low, high), in [-9, 9) when these are left out."""
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        shape = tuple(shape[0])
    stored = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape else shape
    if dtype is _native.bool:
        made = _native.randint(0, 2, stored).to(dtype)
    elif dtype.is_floating_point or dtype.is_complex:
        low, high = -9.0 if low is None else low, 9.0 if high is None else high
        made = _native.rand(stored, dtype=_native.float64) * (high - low) + low
        if dtype.is_complex:
            made = _native.complex(made, _native.rand(stored, dtype=_native.float64) * (high - low) + low)
        made = made.to(dtype)
    else:
        least = _native._integer_facts(dtype)["min"]
        low, high = max(-9, least) if low is None else int(low), 10 if high is None else int(high)
        made = _native.randint(low, high, stored).to(dtype)
    if exclude_zero:
        made = _native.where(made == 0, _native.ones_like(made), made)
    if noncontiguous and shape:
        made = made[..., ::2]
    made = made.to(device)
    return made.requires_grad_() if requires_grad else made
