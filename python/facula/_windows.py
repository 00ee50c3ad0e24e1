"""Windows of signal processing, and `range`."""
from __future__ import annotations

import math

from . import _native
from ._native import float64

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window", "range"]


def _window(function, length, periodic, shape, dtype, layout, device, pin_memory, requires_grad):
    """Entries shape(k / n), k = 0, 1, ...: a periodic window is one entry shorter than the symmetric one."""
    dtype = _native.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point:
        raise RuntimeError(f"{function}(): expected a floating-point dtype, got {dtype}")
    if layout is not None and layout is not _native.strided:
        raise RuntimeError(f"{function}(): only strided tensors are here, got {layout}")
    if length < 0:
        raise RuntimeError(f"{function}(): requires non-negative window_length, got window_length={length}")
    if length < 2:
        return _native.ones(length, dtype=dtype, device=device, pin_memory=pin_memory, requires_grad=requires_grad)
    places = _native.arange(length, dtype=float64, device=device) / (length if periodic else length - 1)
    made = shape(places).to(dtype)
    return made.requires_grad_() if requires_grad else made


def _cosines(a, b, c=0.0):
    """a - b cos 2 pi x + c cos 4 pi x."""
    def shape(x):
        made = a - b * _native.cos(x * (2 * math.pi))
        return made + c * _native.cos(x * (4 * math.pi)) if c else made

    return shape


def hann_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                requires_grad=False):
    """One hump of a cosine, from 0 to 1 and back."""
    return _window("hann_window", window_length, periodic, _cosines(0.5, 0.5), dtype, layout, device, pin_memory,
                   requires_grad)


def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None, device=None,
                   pin_memory=False, requires_grad=False):
    """alpha - beta cos: a hump that does not start at 0."""
    return _window("hamming_window", window_length, periodic, _cosines(alpha, beta), dtype, layout, device, pin_memory,
                   requires_grad)


def blackman_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False):
    """The sum of two cosines that falls off fast to the sides."""
    return _window("blackman_window", window_length, periodic, _cosines(0.42, 0.5, 0.08), dtype, layout, device,
                   pin_memory, requires_grad)


def bartlett_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False):
    """A triangle."""
    return _window("bartlett_window", window_length, periodic, lambda x: 1 - (2 * x - 1).abs(), dtype, layout, device,
                   pin_memory, requires_grad)


def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None, pin_memory=False,
                  requires_grad=False):
    """A hump made with the Bessel function I0; beta trades its width for small sides."""
    def shape(x):
        root = (1 - (2 * x - 1).square()).clamp_min(0).sqrt()
        return _native.i0(beta * root) / _native.i0(_native.tensor(float(beta), dtype=float64, device=device))

    return _window("kaiser_window", window_length, periodic, shape, dtype, layout, device, pin_memory, requires_grad)


def range(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
          requires_grad=False):
    """Numbers from start to end, the end included; `arange`, which leaves it out, is the usual choice."""
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("range(): step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError(f"range(): upper bound and lower bound inconsistent with step sign: from {start} to {end} "
                           f"in steps of {step}")
    count = int((end - start) / step + 1)
    if dtype is None:
        dtype = _native.get_default_dtype() if out is None else out.dtype
    wide = float64 if dtype.is_floating_point else dtype
    made = (_native.arange(count, dtype=wide, device=device) * step + start).to(dtype)
    if out is not None:
        return _native.cat((made,), 0, out=out)
    return made.requires_grad_() if requires_grad else made
