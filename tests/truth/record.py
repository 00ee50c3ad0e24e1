"""The words in which a record is written: tensors by description, calls, errors, and what an op's result must be.

A record file is Python that runs with these names in scope. Nothing here reads or writes files; that is make_cases.py.
"""

import math

import numpy as np

from dtypes import BY_NAME, complex_of, dtype_of, encode, float_of, promote, rounded  # noqa: F401

float16, bfloat16, float32, float64 = (BY_NAME[n] for n in ("float16", "bfloat16", "float32", "float64"))
float8_e4m3fn, float8_e5m2 = BY_NAME["float8_e4m3fn"], BY_NAME["float8_e5m2"]
complex64, complex128 = BY_NAME["complex64"], BY_NAME["complex128"]
uint8, int8, int16, int32, int64 = (BY_NAME[n] for n in ("uint8", "int8", "int16", "int32", "int64"))
boolean = BY_NAME["bool"]

HALVES = [float16, bfloat16]
FLOATS = [float32, float64, float16, bfloat16]
WIDE_FLOATS = [float32, float64]
COMPLEX = [complex64, complex128]
INTS = [int64, int32, int16, int8, uint8]
BOOL = [boolean]
NUMBERS = FLOATS + INTS
ALL = FLOATS + INTS + BOOL
EVERY = ALL + COMPLEX
MOVED = [
    float32,
    float64,
    bfloat16,
    int64,
    uint8,
    boolean,
    complex128,
]  # every size and kind, for ops that only move elements

DROP = object()  # the answer of a description that makes no sense for a dtype, such as infinity among integers


class TensorValue:
    """A drawn tensor: its values for the reference, and its strided memory for the library under test."""

    def __init__(self, values, dtype, layout="contiguous", index=False):
        self.values, self.dtype, self.index, self.held = np.asarray(values), dtype, index, False
        self.sizes = self.values.shape
        self.strides, self.offset, length = _place(self.sizes, layout)
        memory = encode(self.values, dtype)
        # What lies between the elements is loud, so that a kernel that reads it is noticed.
        fill = encode(np.asarray(np.nan if dtype.category >= 2 else 1, dtype.working), dtype)
        self.storage = np.full(length, fill, memory.dtype)
        if memory.size:
            window = np.lib.stride_tricks.as_strided(
                self.storage[self.offset :], self.sizes, [s * memory.dtype.itemsize for s in self.strides]
            )
            window[...] = memory


def _dense(sizes, order):
    strides, step = [0] * len(sizes), 1
    for dim in reversed(order):
        strides[dim], step = step, step * max(sizes[dim], 1)
    return strides, step


def _place(sizes, layout):
    """Strides, storage offset and storage length (in elements) of a layout."""
    n = len(sizes)
    order = list(range(n))
    if layout == "transposed" and n > 1:
        order[-2:] = order[:-3:-1]
    elif layout == "channels_last":
        order = [0, *range(2, n), 1]
    elif layout == "permuted":
        order = order[::-1]
    strides, length = _dense(sizes, order)
    if layout == "strided" or (layout in ("transposed", "permuted") and n == 1):
        wider = [s + 1 for s in sizes]
        strides, length = _dense(wider, order)
        strides = [2 * s for s in strides]
        return strides, 1, 2 * length + 2
    if layout == "offset":
        return strides, 3, length + 3
    if layout == "expanded":
        broadcast = [d for d in (0, 2) if d < n]
        strides, length = _dense([1 if d in broadcast else s for d, s in enumerate(sizes)], order)
        return [0 if d in broadcast else s for d, s in enumerate(strides)], 0, length
    assert layout in ("contiguous", "transposed", "channels_last", "permuted"), layout
    return strides, 0, length


class Spec:
    """A tensor still to be drawn; `make(rng, dtype)` gives its values or DROP, `smooth` those of gradient cases."""

    def __init__(self, make, text, dtype=None, layout="contiguous", index=False, category=None, smooth=None):
        self.make, self.text, self.layout, self.index, self.category = make, text, layout, index, category
        self.dtype = dtype and dtype_of(dtype)
        self.smooth = smooth or make
        self.held = False

    def __repr__(self):
        return self.text

    def draw(self, rng, dtype):
        dtype = self.dtype or dtype
        if self.category and dtype.category not in self.category:
            return DROP
        values = self.make(rng, dtype)
        if values is DROP:
            return DROP
        values = rounded(values, dtype)
        if self.layout == "expanded":
            window = tuple(slice(0, 1) if d in (0, 2) else slice(None) for d in range(values.ndim))
            values = np.broadcast_to(values[window], values.shape) if values.size else values
        return TensorValue(values, dtype, self.layout, self.index)

    def draw_smooth(self, rng, dtype):
        """As draw, for a gradient: no ties, no special numbers, no distance of zero from the ends of the range."""
        dtype = self.dtype or dtype
        if self.category and dtype.category not in self.category:
            return DROP
        values = self.smooth(rng, dtype) if dtype.category >= 2 else self.make(rng, dtype)
        if values is DROP:
            return DROP
        # A tensor whose elements share memory cannot be moved along a random direction.
        layout = "contiguous" if self.layout == "expanded" else self.layout
        drawn = TensorValue(rounded(values, dtype), dtype, layout, self.index)
        drawn.held = self.held
        return drawn


def held(spec):
    """The tensor, not moved in gradient cases: no gradient flows to it although the result depends on it."""
    spec.held = True
    return spec


def _draw_smooth(rng, dtype, shape, low, high, nonzero, unique):
    if unique:
        return _draw(rng, dtype, shape, low, high, False, nonzero, True) + 1 / 16
    low, high = -4.0 if low is None else low, 4.0 if high is None else high
    margin = (high - low) / 20
    return _draw(rng, dtype, shape, low + margin, high - margin, False, nonzero, False)


def _nudged(rng, dtype, values):
    """The values, none of them equal to another or to a whole number."""
    values = np.asarray(values, dtype.working)
    return values + rng.uniform(0.01, 0.1, values.shape) if np.all(np.isfinite(values)) else DROP


def _draw(rng, dtype, shape, low, high, integer, nonzero, unique):
    count = math.prod(shape)
    if dtype.category == 0:
        return rng.integers(0, 2, shape).astype(bool)
    if unique:
        # Whole numbers around zero, scaled into the range: distinct in every dtype as long as there are few of them.
        order = rng.permutation(count) - (0 if dtype.is_unsigned or low is not None and low >= 0 else count // 2)
        return (order if dtype.is_integral or count > 256 else order / 8).reshape(shape) + (low or 0)
    if dtype.category == 1 or integer:
        bottom = max(low if low is not None else -9, 0 if dtype.is_unsigned else -127)
        top = high if high is not None else 9
        values = rng.integers(math.ceil(bottom), max(math.floor(min(top, 2**40)), math.ceil(bottom)) + 1, shape)
        return np.where(values == 0, 1, values) if nonzero else values
    low, high = -4.0 if low is None else low, 4.0 if high is None else high
    values = rng.uniform(low, high, shape)
    if dtype.category == 3:
        values = values + 1j * rng.uniform(low, high, shape)
    if nonzero:
        values = np.where(np.abs(values) < 0.25, 0.25 + values * values, values)
    return values


def t(*shape, low=None, high=None, dtype=None, layout="contiguous", integer=False, nonzero=False, unique=False):
    """A tensor, uniform in [low, high] (default -4..4, integers -9..9), in the dtype under test or in `dtype`."""
    text = f"t{shape}" + (f":{layout}" if layout != "contiguous" else "")
    return Spec(
        lambda rng, d: _draw(rng, d, shape, low, high, integer, nonzero, unique),
        text,
        dtype,
        layout,
        smooth=lambda rng, d: _draw_smooth(rng, d, shape, low, high, nonzero, unique),
    )


def v(values, dtype=None, layout="contiguous"):
    """A tensor of exactly these values."""
    return Spec(
        lambda rng, d: np.asarray(values).astype(d.working),
        f"v({values})",
        dtype,
        layout,
        smooth=lambda rng, d: _nudged(rng, d, values),
    )


def exactly(values, dtype=None, layout="contiguous"):
    """A tensor of exactly these values, in gradient cases as well: zeros of a product, equal entries of a sum."""
    return Spec(lambda rng, d: np.asarray(values, d.working), f"exactly({values})", dtype, layout)


def ints(*shape, low=0, high=9, dtype=int64, layout="contiguous", unique=False):
    """Whole numbers low..high inclusive of a fixed dtype: indices, targets, lengths. They take no part in promotion."""

    def make(rng, d):
        if unique:
            return (low + rng.permutation(math.prod(shape))).reshape(shape)
        return rng.integers(low, high + 1, shape)

    return Spec(make, f"ints{shape}", dtype, layout, index=True)


def ascending(*shape):
    """Values in order along the last dimension, for searches."""
    return Spec(
        lambda rng, d: np.sort(rounded(_draw(rng, d, shape, None, None, False, False, False), d), -1),
        f"ascending{shape}",
    )


def shuffled(*shape, dim, size):
    """Indices below `size` that are distinct along `dim`."""

    def make(rng, d):
        order = np.argsort(rng.random([size if n == dim else s for n, s in enumerate(shape)]), axis=dim)
        return np.take(order, range(shape[dim]), axis=dim)

    return Spec(make, f"shuffled{shape}", int64, index=True)


def index(values, dtype=int64):
    """Exactly these indices."""
    return Spec(lambda rng, d: np.asarray(values, d.working), f"index({values})", dtype, index=True)


def mask(*shape, layout="contiguous"):
    return Spec(lambda rng, d: rng.integers(0, 2, shape).astype(bool), f"mask{shape}", boolean, layout, index=True)


def special(*skip):
    """NaN, both infinities and zeros, the smallest and largest numbers, and small ones; floats and complex only."""

    def make(rng, d):
        tiny = 2.0 ** {"float16": -14, "complex32": -14, "float64": -1022, "complex128": -1022}.get(d.name, -126)
        row = {
            "nan": np.nan,
            "inf": np.inf,
            "-inf": -np.inf,
            "zero": 0.0,
            "-zero": -0.0,
            "denormal": d.smallest * 3,
            "-denormal": -d.smallest * 3,
            "tiny": tiny,
            "max": d.largest,
            "-max": -d.largest,
            "one": 1.0,
            "-one": -1.0,
            "half": 0.5,
            "two": 2.0,
            "-three": -3.0,
        }
        values = np.array([x for name, x in row.items() if name not in skip])
        return values if d.category == 2 else values[np.abs(values) < 1e4] + 0.5j

    return Spec(make, "special()", category=(2, 3), smooth=lambda rng, d: DROP)


class Options:
    """A TensorOptions argument: here, a dtype."""

    def __init__(self, dtype):
        self.dtype = dtype_of(dtype)

    def __repr__(self):
        return repr(self.dtype)


class MemoryFormat(str):
    """A memory format argument, by name."""


class Call:
    def __init__(self, args, kwargs, only, loose):
        self.args, self.kwargs, self.only, self.loose = args, kwargs, only, loose

    def __repr__(self):
        parts = [repr(a) for a in self.args] + [f"{k}={a!r}" for k, a in self.kwargs.items()]
        return ", ".join(parts)[:160]


def call(*args, only=None, loose=1, **kwargs):
    """One call of the op. `only` restricts it to some dtypes, `loose` widens its tolerance."""
    return Call(args, kwargs, only, loose)


class Error:
    def __init__(self, sample, kind, text, meta):
        self.call, self.kind, self.text, self.meta = sample, getattr(kind, "__name__", kind), text, meta


ShapeError, DTypeError, DeviceError, NotSupportedError = "ShapeError", "DTypeError", "DeviceError", "NotSupportedError"


def error(sample, kind, text, meta=True):
    """The call must fail with this type, in words that contain this text. An unqualified tensor is a float32 one.

    `meta` is False when the failure depends on values, which meta tensors do not have.
    """
    return Error(sample, kind, text, meta)


class Statistics:
    """What the numbers of a random op must look like: bounds, moments, and points of the distribution function."""

    def __init__(self, low=-math.inf, high=math.inf, mean=math.nan, std=math.nan, cdf=(), permutation=False):
        self.low, self.high, self.mean, self.std, self.cdf, self.permutation = (
            low,
            high,
            mean,
            std,
            list(cdf),
            permutation,
        )


def statistics(distribution=None, *, low=-math.inf, high=math.inf, mean=None, std=None, cdf=(), permutation=False):
    """Bounds and moments; a scipy.stats distribution supplies what is not said. `cdf` is a list of (x, P(X <= x))."""
    if distribution is not None:
        low, high = max(low, distribution.support()[0]), min(high, distribution.support()[1])
        mean = distribution.mean() if mean is None else mean
        std = distribution.std() if std is None else std
        points = [float(distribution.ppf(q)) for q in (0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95)]
        cdf = cdf or [(x, float(distribution.cdf(x))) for x in sorted(set(points))]
    return Statistics(low, high, math.nan if mean is None else mean, math.nan if std is None else std, cdf, permutation)


class Record:
    def __init__(self, name, **fields):
        self.name = name
        self.__dict__.update(fields)


RECORDS = []


def record(
    name,
    ref=None,
    *,
    samples,
    dtypes=FLOATS,
    result="promote",
    loose=1,
    rounds=1,
    cancels=False,
    exact=False,
    signed_zero=False,
    errors=(),
    random=None,
    meta=True,
    devices=True,
    inplace=True,
    out=True,
    layouts=True,
    threads=True,
    values=True,
    aliases=False,
    sees_dtype=False,
    gradient=None,
    gradient_extra=(),
    gradient_orders=2,
):
    """Declares the record of op `name`.

    ref       NumPy function of the call's arguments; its result (or tuple of results) is the truth
    dtypes    dtypes the op is claimed for: each sample runs in each
    result    dtype claim: "promote" (of the tensors), "scalars" (of tensors and numbers), "same" (the first tensor's),
              "float" (integers become float32), "float scalars", "default" (float32 unless asked), "bool", "long",
              "real", a dtype, a function of the drawn arguments, or a tuple of these for several results. A dtype among
              the arguments wins over "promote" and the like
    loose     widens the tolerance; `exact` narrows it to the correctly rounded number
    rounds    how often a half type is rounded on the way to the result
    cancels   True when the result is a sum whose terms may cancel: the tolerance then follows the sum of their sizes (the
              reference of the absolute values), since rounding does. A function of the call's arguments, all of them
              positive, gives these sums where the reference does not
    random    a Statistics, or a function of the call's arguments that gives one
    meta, devices, inplace, out, layouts, threads    properties that do not hold for this op are switched off here;
              `devices`: tensors of different devices are refused
    values    False when the memory of the result is undefined (empty)
    sees_dtype  True when the reference takes the claimed dtype as `claimed=`
    aliases   True when the result must share memory with the first argument
    gradient  calls at whose arguments the derivatives are checked, when not at those of `samples`; or "none: WHY" for an
              op whose derivatives differences cannot show. The numbers are drawn anew, without ties and special numbers
              and a little inside of the range: differences need a smooth neighbourhood
    gradient_extra   calls besides those
    gradient_orders  1 when the gradient is not differentiable again
    """
    RECORDS.append(
        Record(
            name,
            ref=ref,
            samples=list(samples),
            dtypes=dtypes,
            result=result,
            loose=loose,
            rounds=rounds,
            cancels=cancels,
            exact=exact,
            signed_zero=signed_zero,
            errors=list(errors),
            random=random,
            meta=meta,
            devices=devices,
            inplace=inplace,
            out=out,
            layouts=layouts,
            threads=threads,
            values=values,
            aliases=aliases,
            sees_dtype=sees_dtype,
            gradient=gradient,
            gradient_extra=list(gradient_extra),
            gradient_orders=gradient_orders,
        )
    )


# Sample sets that whole families share.


def unary(low=None, high=None, skip=(), extra=(), nonzero=False, special_values=True):
    """One tensor in: every layout, empty, no dimensions, longer than two tiles, and special values."""
    r = {"low": low, "high": high, "nonzero": nonzero}
    return [
        call(t(7, 5, **r)),
        call(t(**r)),
        call(t(0, 3, **r)),
        call(t(1, **r)),
        call(t(5003, **r)),
        call(t(6, 11, layout="transposed", **r)),
        call(t(3, 4, 5, layout="strided", **r)),
        call(t(2, 3, 4, 5, layout="channels_last", **r)),
        call(t(4, 9, layout="expanded", **r)),
        call(t(33, layout="offset", **r)),
        *([call(special(*skip))] if special_values else []),
        *extra,
    ]


def binary(low=None, high=None, second=None, scalars=(), extra=(), special_values=True):
    """Two tensors in: broadcasting, mixed layouts, empty, no dimensions, special values against each other."""
    a = {"low": low, "high": high}
    b = a if second is None else second
    pairs = [
        call(t(7, 5, **a), t(7, 5, **b)),
        call(t(**a), t(**b)),
        call(t(4, 5, **a), t(**b)),
        call(t(**a), t(4, 5, **b)),
        call(t(0, 3, **a), t(3, **b)),
        call(t(2601, **a), t(2601, **b)),
        call(t(3, 1, 5, **a), t(4, 1, **b)),
        call(t(6, 7, layout="transposed", **a), t(6, 7, layout="strided", **b)),
        call(t(5, 1, **a), t(1, 130, **b)),
        call(t(2, 3, 4, 5, layout="channels_last", **a), t(3, 1, 1, **b)),
        call(t(4, 9, layout="expanded", **a), t(4, 9, **b)),
    ]
    both = (
        [call(special(), t(1, **b)), call(t(1, **a), special()), call(special(), special())] if special_values else []
    )
    return pairs + both + [call(t(5, 6, **a), s) for s in scalars] + list(extra)


def reduction(low=None, high=None, dims=True, empty=True, unique=False, extra=(), list_dims=True):
    """Reductions: everything, one dim, several dims, keepdim; empty, no dimensions, long rows, odd layouts, NaN."""
    r = {"low": low, "high": high, "unique": unique}
    samples = [call(t(4, 6, **r)), call(t(**r)), call(t(3001, **r)), call(t(3, 4, 5, layout="strided", **r))]
    if dims:
        many = (lambda *d: list(d)) if list_dims else (lambda *d: d[0])
        samples += [
            call(t(4, 6, **r), many(1)),
            call(t(4, 6, **r), many(0), True),
            call(t(5, **r), many(-1)),
            call(t(**r), many(0)),
            call(t(3, 4, 5, **r), many(0, 2)),
            call(t(3, 4, 5, layout="transposed", **r), many(1), True),
            call(t(2, 3, 4, 5, layout="channels_last", **r), many(1, 3)),
            call(t(6, 500, **r), many(1)),
            call(t(500, 6, **r), many(0)),
            call(t(4, 9, layout="expanded", **r), many(0)),
            call(special(), many(0)),
        ]
        if empty:
            samples += [call(t(0, 3, **r), many(0)), call(t(3, 0, **r), many(0))]
    if empty:
        samples += [call(t(0, **r))]
    return samples + list(extra)


def axes(dim):
    """The `axis` of NumPy for PyTorch's `dim`: None and the empty list mean all."""
    if dim is None or isinstance(dim, (list, tuple)) and not dim:
        return None
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


U = {"low": -1, "high": 1}  # for products: sums of many terms stay small
DIM_OUT_OF_RANGE = "Dimension out of range"


def promoted(*args):
    """The dtype in which the drawn tensors and scalars among `args` meet."""
    tensors = [(x.dtype, len(x.sizes)) for x in args if isinstance(x, TensorValue) and not x.index]
    return promote(tensors, [x for x in args if isinstance(x, (bool, int, float, complex))])


def floated(*args):
    return float_of(promoted(*args))


# Two tensors of different dtypes: the one under test with an integer, a wider float without dimensions, a bool.
MIXED = [
    call(t(5, dtype=int32), t(5)),
    call(t(5, integer=True), t(dtype=float64, integer=True)),
    call(t(4, 3, dtype=boolean), t(3)),
]
