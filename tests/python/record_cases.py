"""The records of tests/records as Python calls: drawn inputs as tensors of the package, the truth that the records
claim, and the comparison of the two. What must hold of a call is in test_truth.py.

Samples, references and tolerances are those of the C++ record tests: this module takes them from tests/truth and adds
only the way into and out of the package.
"""

import math
import pathlib
import sys
import warnings
import zlib

import numpy as np
from seed import SEED

import facula

ROOT = pathlib.Path(__file__).resolve().parents[2]
for _folder in ("tests/truth", "tools"):
    if str(ROOT / _folder) not in sys.path:
        sys.path.append(str(ROOT / _folder))

import book as record_book  # noqa: E402
import dtypes  # noqa: E402
import make_cases  # noqa: E402
import opgen  # noqa: E402
from case_file import Device  # noqa: E402
from record import MemoryFormat, TensorValue  # noqa: E402


def read_ops():
    """The op book with every overload's variants, by name."""
    ops = [op for path in sorted((ROOT / "ops").glob("*.ops")) for op in opgen.parse_file(path)]
    for op in ops:
        opgen.finish(op)
    return {op.name: op for op in ops}


OPS = read_ops()
BOOK = record_book.read_book()
RECORDS = {record.name: record for record in make_cases.read_records()}


# Memory: arrays of NumPy as tensors and back, for every dtype, whether NumPy knows it or not.

# Dtypes that NumPy does not know travel as integers of the same width.
_CARRIED = {"bfloat16": "i2", "float8_e5m2": "u1", "float8_e4m3fn": "u1", "complex32": "i4"}


def facula_dtype(dtype):
    return getattr(facula, dtype.name)


def tensor_of(value):
    """A drawn tensor in the package, over memory of its own: (tensor, the array that is its memory)."""
    memory = value.storage.copy()
    carrier = _CARRIED.get(value.dtype.name)
    flat = facula.from_numpy(memory.view(carrier) if carrier else memory)
    if carrier:
        flat = flat.view(facula_dtype(value.dtype))
    return flat.as_strided(tuple(value.sizes), tuple(value.strides), value.offset), memory


def filled(dtype, sizes, gaps=False):
    """A tensor of these sizes whose memory is loud; with `gaps` it has holes between its elements."""
    room = [n + 1 for n in sizes] if gaps else list(sizes)
    strides, step = [0] * len(room), 1
    for d in reversed(range(len(room))):
        strides[d], step = step, step * max(room[d], 1)
    if gaps:
        strides, step = [2 * s for s in strides], 2 * step + 1
    carrier = _CARRIED.get(dtype.name) or dtype.memory
    memory = np.full(step, 1, carrier)
    if dtype.name != "bool":
        memory.view("u1")[:] = 0x71
    flat = facula.from_numpy(memory)
    if dtype.name in _CARRIED:
        flat = flat.view(facula_dtype(dtype))
    return flat.as_strided(tuple(sizes), tuple(strides), 1 if gaps else 0)


def array_of(tensor):
    """The elements of a tensor as an array of the dtype's memory type."""
    name = str(tensor.dtype).partition(".")[2]
    carrier = _CARRIED.get(name)
    if carrier is None:
        return tensor.numpy()
    return tensor.view({"i2": facula.int16, "u1": facula.uint8, "i4": facula.int32}[carrier]).numpy()


def values_of(tensor):
    """The elements of a tensor in the widest type of their kind."""
    name = str(tensor.dtype).partition(".")[2]
    memory = array_of(tensor)
    if name == "bfloat16":
        bits = np.ascontiguousarray(memory).view("u2").astype("u4") << 16
        return bits.view("f4").astype("f8").reshape(memory.shape)
    if name.startswith("float8"):
        size = dtypes._FLOAT8[name][memory & 127]
        return np.where(memory >> 7, -size, size)
    if name == "complex32":
        pairs = np.ascontiguousarray(memory).reshape(-1).view("f2").reshape(memory.shape + (2,)).astype("f8")
        return pairs[..., 0] + 1j * pairs[..., 1]
    dtype = dtypes.BY_NAME[name]
    widest = {0: "?", 1: "u8" if dtype.is_unsigned else "i8", 2: "f8", 3: "c16"}[dtype.category]
    return memory.astype(widest)


# Comparison; the rules are those of tests/cpp/record_values.cpp.


def _part_error(actual, expected, allowed, rtol, limit):
    """How far parts of numbers are off, in units of what is allowed: at most 1 is right."""
    with np.errstate(all="ignore"):
        off = np.abs(actual - expected) / allowed
        margin = limit * (1.0 - rtol)
        same_sign = (actual > 0) == (expected > 0)
        fair_infinity = np.where((np.abs(expected) >= margin) & same_sign, 0.0, np.inf)
        beyond = (np.abs(expected) <= limit * (1.0 + rtol)) & (np.abs(actual) >= margin) & same_sign
        error = np.where(np.asarray(allowed) > 0, off, np.inf)
        error = np.where(np.isinf(expected) | (np.abs(expected) > limit), np.where(beyond, 0.0, np.inf), error)
        error = np.where(np.isinf(actual), fair_infinity, error)
        error = np.where(actual == expected, 0.0, error)
        nan = np.isnan(expected) | np.isnan(actual)
        return np.where(nan, np.where(np.isnan(expected) == np.isnan(actual), 0.0, np.inf), error)


class Truth:
    """What one result must be: a dtype, a shape, and values with a tolerance; or a plain number."""

    def __init__(self, values, dtype, rtol, atol, number=False):
        self.values, self.dtype, self.rtol, self.atol, self.number = values, dtype, rtol, atol, number

    @property
    def sizes(self):
        return tuple(self.values.shape)

    def errors(self, actual, signed_zero):
        if self.dtype.category < 2:
            return np.where(actual == self.values, 0.0, np.inf)
        limit = dtypes.real_of(self.dtype).largest
        expected = self.values
        if not self.dtype.is_complex:
            with np.errstate(all="ignore"):
                allowed = self.atol + self.rtol * np.abs(expected)
            error = _part_error(actual, expected, allowed, self.rtol, limit)
            if signed_zero:
                error = np.where((expected == 0) & (np.signbit(actual) != np.signbit(expected)), np.inf, error)
            return error
        with np.errstate(all="ignore"):
            size = np.abs(expected)
            parts = [np.where(np.isfinite(p), np.abs(p), 0.0) for p in (expected.real, expected.imag)]
            size = np.where(np.isfinite(size), size, np.maximum(*parts))
        allowed = self.atol + self.rtol * size
        return np.maximum(
            _part_error(actual.real, expected.real, allowed, self.rtol, limit),
            _part_error(actual.imag, expected.imag, allowed, self.rtol, limit),
        )

    def difference(self, actual, signed_zero=False, compare_values=True):
        """Empty when `actual` is right, else what is wrong, in words."""
        if self.number:
            if isinstance(actual, facula.Tensor) or not isinstance(actual, (bool, int, float, complex)):
                return f"the result is {actual!r}, not a number"
            off = abs(actual - self.values)
            return "" if off <= self.atol + self.rtol * abs(self.values) else f"got {actual}, must be {self.values}"
        if not isinstance(actual, facula.Tensor):
            return f"the result is {actual!r}, not a tensor"
        if actual.dtype is not facula_dtype(self.dtype):
            return f"the dtype is {actual.dtype}, must be {self.dtype}"
        if tuple(actual.shape) != self.sizes:
            return f"the shape is {tuple(actual.shape)}, must be {self.sizes}"
        if not compare_values or math.isnan(self.rtol) or actual.is_meta:
            return ""
        got = values_of(actual)
        error = self.errors(got, signed_zero)
        if not error.size or error.max() <= 1.0:
            return ""
        worst = np.unravel_index(int(error.argmax()), error.shape)
        return (
            f"{np.count_nonzero(error > 1.0)} of {error.size} elements are wrong; the worst is at "
            f"{[int(i) for i in worst]}: got {got[worst]!r}, must be {self.values[worst]!r} "
            f"(rtol {self.rtol:.3g}, atol {self.atol:.3g})"
        )


def bit_difference(actual, expected):
    """Empty when both are the same bit for bit, any NaN being equal to any other."""
    if not isinstance(expected, facula.Tensor):
        return "" if actual == expected else f"got {actual!r}, plainly it is {expected!r}"
    if actual.dtype is not expected.dtype or tuple(actual.shape) != tuple(expected.shape):
        return f"{actual.dtype}{tuple(actual.shape)}, plainly it is {expected.dtype}{tuple(expected.shape)}"
    a, b = array_of(actual), array_of(expected)
    if np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes():
        return ""
    a, b = values_of(actual), values_of(expected)
    if a.dtype.kind in "fc" and np.array_equal(a, b, equal_nan=True):
        return ""
    return f"got {a!r}, plainly it is {b!r}"


# Cases.


class _Collector:
    """Stands in for the writer of case files and keeps what would be written."""

    def __init__(self):
        self.truths, self._number = [], None

    def u32(self, count):
        pass

    def u8(self, kind):
        pass

    def value(self, number):
        self._number = number

    def f64(self, rtol, atol):
        self.truths.append(Truth(self._number, None, rtol, atol, number=True))

    def truth(self, values, dtype, rtol, atol):
        widest = {0: "?", 1: "u8" if dtype.is_unsigned else "i8", 2: "f8", 3: "c16"}[dtype.category]
        self.truths.append(Truth(np.asarray(values).astype(widest), dtype, rtol, atol))


class Case:
    """One call of an op: the overload, its arguments in order up to the last one given, and what must come of it."""

    def __init__(self, record, title, schema, values):
        self.record, self.title = record, title
        self.overload = next(d for d in OPS[record.name].defs if d.schema == schema)
        self.values = values
        self.truths, self.statistics, self.failure = [], None, None

    def arguments(self, device=None):
        """Fresh Python values, by name and in order; and the memory of their tensors."""
        memories = []

        def convert(x):
            if isinstance(x, TensorValue):
                if device:
                    dtype = facula_dtype(x.dtype)
                    return facula.empty_strided(tuple(x.sizes), tuple(x.strides), dtype=dtype, device=device)
                tensor, memory = tensor_of(x)
                memories.append(memory)
                return tensor
            if isinstance(x, dtypes.DType):
                return facula_dtype(x)
            if isinstance(x, Device):
                return facula.device(str(x))
            if isinstance(x, MemoryFormat):
                return getattr(facula, str(x) + ("_format" if str(x) in ("contiguous", "preserve") else ""))
            if isinstance(x, (list, tuple)):
                return [convert(e) for e in x]
            return x

        return {a.name: convert(x) for a, x in zip(self.overload.args, self.values)}, memories

    def split(self, given):
        """The arguments as Python's callers write them: positional ones, then those that have a name."""
        args, kwargs, named = [], {}, False
        for a in self.overload.args:
            if a.name not in given:
                continue
            named = named or a.keyword_only or a.type in ("TensorOptions", "Generator?")
            if a.type == "TensorOptions":
                if given[a.name] is not None:
                    kwargs["dtype"] = given[a.name]
            elif named:
                kwargs[a.name] = given[a.name]
            else:
                args.append(given[a.name])
        return args, kwargs

    def keywords(self, given):
        """All arguments by name, as functions call them."""
        kwargs = {}
        for a in self.overload.args:
            if a.name not in given:
                continue
            if a.type == "TensorOptions":
                if given[a.name] is not None:
                    kwargs["dtype"] = given[a.name]
            else:
                kwargs["input" if a.name == "self" else a.name] = given[a.name]
        return kwargs

    def tensors(self):
        for x in self.values:
            for e in x if isinstance(x, (list, tuple)) else [x]:
                if isinstance(e, TensorValue):
                    yield e


def cases_of(name):
    """Every case of an op's record, drawn with the run's seed."""
    record, entry = RECORDS[name], BOOK[name]
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    for dtype in record.dtypes:
        for number, sample in enumerate(record.samples):
            if sample.only is not None and dtype not in sample.only:
                continue
            drawn = make_cases.draw_call(sample, rng, dtypes.dtype_of(dtype))
            if drawn is None:
                continue
            args, kwargs = drawn
            case = Case(record, f"{name}({sample!r}), {dtype}, sample {number}", *entry.bind(args, kwargs))
            case.dtype = dtypes.dtype_of(dtype)
            seen = [make_cases.for_reference(x, record.result) for x in args]
            named = {k: make_cases.for_reference(x, record.result) for k, x in kwargs.items()}
            if record.sees_dtype:
                named["claimed"] = make_cases.claim(record.result, args, kwargs)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # means of nothing are NaN
                results = record.ref(*seen, **named)
                if record.random:
                    case.statistics = record.random(*seen, **named) if callable(record.random) else record.random
                    results = np.zeros(results)
                collector = _Collector()
                make_cases.write_results(collector, record, sample, results, args, kwargs)
            case.truths = collector.truths
            yield case


def failures_of(name):
    """Every call that the record says must fail."""
    record, entry = RECORDS[name], BOOK[name]
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), 2])
    for failure in record.errors:
        args, kwargs = make_cases.draw_call(failure.call, rng, dtypes.BY_NAME["float32"])
        case = Case(record, f"{name}({failure.call!r}) must fail", *entry.bind(args, kwargs))
        case.failure = failure
        yield case
