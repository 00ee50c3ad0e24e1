"""Dtypes of the standard: promotion, kinds, what number formats hold, and what the namespace says of itself.

Promotion differs from the package's own in one point: an array without dimensions counts as much as any other.
"""

import builtins

import facula

_native = facula._native

bool = facula.bool
int8, int16, int32, int64 = facula.int8, facula.int16, facula.int32, facula.int64
uint8, uint16, uint32, uint64 = facula.uint8, facula.uint16, facula.uint32, facula.uint64
float32, float64 = facula.float32, facula.float64
complex64, complex128 = facula.complex64, facula.complex128

_SIGNED = {"int8": int8, "int16": int16, "int32": int32, "int64": int64}
_UNSIGNED = {"uint8": uint8, "uint16": uint16, "uint32": uint32, "uint64": uint64}
_REAL = {"float32": float32, "float64": float64}
_COMPLEX = {"complex64": complex64, "complex128": complex128}
_INTEGRAL = {**_SIGNED, **_UNSIGNED}
_NUMERIC = {**_INTEGRAL, **_REAL, **_COMPLEX}
_KINDS = {
    "bool": {"bool": bool},
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _INTEGRAL,
    "real floating": _REAL,
    "complex floating": _COMPLEX,
    "numeric": _NUMERIC,
}
_SIGNED_BY_SIZE = {1: int8, 2: int16, 4: int32, 8: int64}


def _is(x):
    return isinstance(x, facula.Tensor)


def _holds(dtypes, dtype):
    """Whether a dtype is among those; they are single objects, so identity tells."""
    return any(dtype is each for each in dtypes.values())


def _promoted(a, b):
    """The dtype in which two dtypes meet."""
    if a is b:
        return a
    if _holds(_UNSIGNED, b) and _holds(_SIGNED, a):
        a, b = b, a
    if _holds(_UNSIGNED, a) and _holds(_SIGNED, b):
        if a is uint64:
            raise TypeError(f"{a} and {b} have no common dtype; convert one of them with astype first")
        return _SIGNED_BY_SIZE[max(2 * a.itemsize, b.itemsize)]
    if _holds(_UNSIGNED, a) and _holds(_UNSIGNED, b):
        return a if a.itemsize > b.itemsize else b
    return _native.promote_types(a, b)


def _with_scalar(dtype, scalar):
    """The dtype in which an array and a Python number meet: the array's, when that can hold the number's kind."""
    if isinstance(scalar, builtins.bool):
        return dtype
    if isinstance(scalar, int):
        return int64 if dtype is bool else dtype
    floating = dtype.is_floating_point or dtype.is_complex
    if isinstance(scalar, float):
        return dtype if floating else facula.get_default_dtype()
    return dtype if dtype.is_complex else _complex_of(dtype if floating else facula.get_default_dtype())


def _complex_of(dtype):
    return complex128 if dtype is float64 else complex64


def _real_of(dtype):
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def result_type(*arrays_and_dtypes):
    """The dtype in which arrays, dtypes and Python numbers meet."""
    found, numbers = None, []
    for each in arrays_and_dtypes:
        if isinstance(each, (builtins.bool, int, float, complex)):
            numbers.append(each)
            continue
        dtype = each.dtype if _is(each) else each
        found = dtype if found is None else _promoted(found, dtype)
    if found is None:
        raise ValueError("result_type: give at least one array or dtype")
    for number in numbers:
        found = _with_scalar(found, number)
    return found


def _together(*arrays):
    """Arrays and Python numbers as arrays of one dtype."""
    dtype = result_type(*arrays)
    device = next(x.device for x in arrays if _is(x))
    return [
        (x if x.dtype is dtype else x.to(dtype)) if _is(x) else facula.tensor(x, dtype=dtype, device=device)
        for x in arrays
    ]


def astype(x, dtype, /, *, copy=True, device=None):
    """The array in another dtype; a copy unless `copy` is False and nothing changes."""
    if x.dtype.is_complex and not dtype.is_complex:
        raise TypeError(f"astype: {x.dtype} does not become {dtype} by itself; take real(x) or imag(x)")
    device = x.device if device is None else device
    return x.to(device=device, dtype=dtype, copy=copy)


def can_cast(from_, to, /):
    """Whether promotion takes one dtype to another."""
    from_ = from_.dtype if _is(from_) else from_
    try:
        return _promoted(from_, to) is to
    except TypeError:
        return False


class finfo_object:
    """What a floating-point dtype can hold; a complex one as its parts."""

    def __init__(self, dtype):
        self.dtype = _real_of(dtype)
        facts = facula.finfo(self.dtype)
        self.bits, self.eps, self.max, self.min = facts.bits, float(facts.eps), float(facts.max), float(facts.min)
        self.smallest_normal = float(facts.tiny)

    def __repr__(self):
        return f"finfo(dtype={self.dtype}, bits={self.bits}, eps={self.eps}, max={self.max}, min={self.min})"


class iinfo_object:
    """What an integer dtype can hold."""

    def __init__(self, dtype):
        facts = facula.iinfo(dtype)
        self.dtype, self.bits, self.max, self.min = dtype, facts.bits, facts.max, facts.min

    def __repr__(self):
        return f"iinfo(dtype={self.dtype}, bits={self.bits}, max={self.max}, min={self.min})"


def finfo(type, /):
    """Limits of a floating-point dtype."""
    return finfo_object(type.dtype if _is(type) else type)


def iinfo(type, /):
    """Limits of an integer dtype."""
    return iinfo_object(type.dtype if _is(type) else type)


def isdtype(dtype, kind):
    """Whether a dtype is of a kind: a name such as "integral", a dtype, or a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: unknown kind {kind!r}; known are {', '.join(map(repr, _KINDS))}")
        return _holds(_KINDS[kind], dtype)
    return dtype is kind


class __array_namespace_info__:  # noqa: N801 (the standard's name)
    """What this namespace can do."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return facula.device("cpu")

    def default_dtypes(self, *, device=None):
        real = facula.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": _complex_of(real),
            "integral": int64,
            "indexing": int64,
        }

    def devices(self):
        return [facula.device("cpu")]

    def dtypes(self, *, device=None, kind=None):
        if kind is None:
            return {"bool": bool, **_NUMERIC}
        kinds = kind if isinstance(kind, tuple) else (kind,)
        unknown = [each for each in kinds if each not in _KINDS]
        if unknown:
            raise ValueError(f"dtypes: unknown kind {unknown[0]!r}; known are {', '.join(map(repr, _KINDS))}")
        return {name: dtype for each in kinds for name, dtype in _KINDS[each].items()}
