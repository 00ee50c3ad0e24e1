"""Tensors as text, in PyTorch's layout: `tensor([[1., 2.],\\n        [3., 4.]])`.

All numbers of a tensor are written alike, so that columns line up: first the numbers that will show decide how,
then they are written. Large tensors show their edges only, and only those are read.
"""
from __future__ import annotations

import math

from . import _native

_DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES = {
    "default": _DEFAULTS,
    "short": {**_DEFAULTS, "precision": 2, "edgeitems": 2},
    "full": {**_DEFAULTS, "threshold": math.inf},
}
_options = dict(_DEFAULTS)

_ELLIPSIS = object()  # stands in nested lists for what is left out


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Says how tensors are printed.

    precision: digits behind the point (4). threshold: above that many elements only the edges are shown (1000).
    edgeitems: how many at each edge of a dim (3). linewidth: characters of a line (80). profile: "default", "short" or
    "full" set all of these. sci_mode: scientific notation always (True), never (False) or by the numbers (None).
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions(): unknown profile {profile!r}; it is one of {', '.join(_PROFILES)}")
        _options.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in given.items() if value is not None})
    _options["sci_mode"] = sci_mode


def get_printoptions():
    """The options that set_printoptions sets, by name."""
    return dict(_options)


class _RealFormat:
    """How floating-point numbers are written: as whole numbers with a point, with fixed digits, or scientifically."""

    def __init__(self, numbers):
        finite = [x for x in numbers if x != 0 and math.isfinite(x)]
        precision = _options["precision"]
        self.whole = all(x == math.ceil(x) for x in finite)
        scientific = False
        if finite:
            smallest, largest = min(map(abs, finite)), max(map(abs, finite))
            scientific = largest > 1e8 or largest / smallest > 1000 or (not self.whole and smallest < 1e-4)
        self.pattern = f".{precision}e" if scientific else ".0f" if self.whole else f".{precision}f"
        # Zero, infinities and nan do not count for the width of a column.
        point = 1 if self.whole and not scientific else 0
        self.width = max([1] + [len(format(x, self.pattern)) + point for x in finite])
        if _options["sci_mode"] is not None:
            scientific = _options["sci_mode"]
            self.pattern = f".{precision}e" if scientific else ".0f" if self.whole else f".{precision}f"
        self.scientific = scientific

    def __call__(self, x):
        text = format(x, self.pattern)
        if self.whole and not self.scientific and math.isfinite(x):
            text += "."
        return text.rjust(self.width)


class _PlainFormat:
    """How integers and bools are written."""

    def __init__(self, numbers):
        self.width = max([1] + [len(str(x)) for x in numbers])

    def __call__(self, x):
        return str(x).rjust(self.width)


class _ComplexFormat:
    """How complex numbers are written: the parts have a format each."""

    def __init__(self, numbers):
        self.real = _RealFormat([z.real for z in numbers])
        self.imag = _RealFormat([z.imag for z in numbers])
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, z):
        imag = self.imag(z.imag).lstrip() + "j"
        return self.real(z.real) + (imag if imag[0] in "+-" else "+" + imag)


def _edges(tensor):
    """The entries that show when dims longer than two edges are cut."""
    edge = _options["edgeitems"]
    for dim, size in enumerate(tensor.shape):
        if size > 2 * edge:
            keep = list(range(edge)) + list(range(size - edge, size))
            tensor = tensor.index_select(dim, _native.tensor(keep, dtype=_native.int64))
    return tensor


def _with_ellipses(values, shape):
    """Puts the mark where entries of the nested lists were left out."""
    edge = _options["edgeitems"]
    if not shape:
        return values
    values = [_with_ellipses(v, shape[1:]) for v in values]
    if shape[0] > 2 * edge:
        values.insert(edge, _ELLIPSIS)
    return values


def _flat(values, dims):
    for _ in range(dims - 1):
        values = [x for part in values for x in part]
    return values if dims else [values]


def _row(values, write, indent):
    texts = ["..." if v is _ELLIPSIS else write(v) for v in values]
    if len(texts) > 1:
        # The mark stands apart from what comes before it, and alone it stands for everything.
        texts = [" ..." if v is _ELLIPSIS else t for v, t in zip(values, texts)]
    length = write.width + 2
    per_line = max(1, (_options["linewidth"] - indent) // length)
    lines = [", ".join(texts[i:i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _body(values, dims, write, indent):
    if dims == 0:
        return write(values)
    if dims == 1:
        return _row(values, write, indent)
    parts = ["..." if v is _ELLIPSIS else _body(v, dims - 1, write, indent + 1) for v in values]
    return "[" + ("," + "\n" * (dims - 1) + " " * (indent + 1)).join(parts) + "]"


def _values_text(tensor, indent):
    if tensor.dtype.itemsize < 4 and tensor.is_floating_point():
        tensor = tensor.float()
    elif tensor.dtype is _native.complex32:
        tensor = tensor.to(_native.complex64)
    dims, cut = tensor.dim(), tensor.numel() > _options["threshold"]
    shown = _edges(tensor) if cut else tensor
    values = shown.tolist()
    numbers = _flat(values, dims)
    kind = _ComplexFormat if tensor.is_complex() else _RealFormat if tensor.is_floating_point() else _PlainFormat
    write = kind(numbers)
    if cut:
        values = _with_ellipses(values, tuple(tensor.shape))
    return _body(values, dims, write, indent)


def tensor_text(tensor):
    """What repr() of a tensor is."""
    indent = len("tensor(")
    extra = []
    if tensor.device.type != "cpu":
        extra.append(f"device='{tensor.device}'")
    default = _native.get_default_dtype()
    default_complex = _native.complex128 if default is _native.float64 else _native.complex64
    if tensor.is_meta:
        extra.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype is not default:
            extra.append(f"dtype={tensor.dtype}")
        body = "..."
    elif tensor.numel() == 0:
        # Without elements the text must say what they would show.
        if tensor.dim() != 1:
            extra.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype is not default:
            extra.append(f"dtype={tensor.dtype}")
        body = "[]"
    else:
        if tensor.dtype not in (default, default_complex, _native.int64, _native.bool):
            extra.append(f"dtype={tensor.dtype}")
        try:
            body = _values_text(tensor.detach(), indent)
        except _native.NotSupportedError:
            # Inside vmap a tensor has no values of its own.
            body = "..."
            extra.insert(0, f"size={tuple(tensor.shape)}")
    if tensor.grad_fn is not None:
        extra.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        extra.append("requires_grad=True")
    text = _joined("tensor(" + body, extra, indent) + ")"
    return f"Parameter containing:\n{text}" if tensor.__dict__.get("_is_param") else text


def _joined(text, extra, indent):
    """The text and what follows it, on lines of their own where a line is full."""
    used = len(text) - text.rfind("\n") + 1
    for part in extra:
        if used + len(part) + 2 > _options["linewidth"]:
            text += ",\n" + " " * indent + part
            used = indent + len(part)
        else:
            text += ", " + part
            used += len(part) + 2
    return text
