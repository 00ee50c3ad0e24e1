"""The dtypes of a case file: their codes, their bytes in memory, and PyTorch's promotion rules.

Values live in NumPy arrays of a "working" type (float64 for every float, complex128 for every complex, the integer type
itself otherwise) that were rounded to what the dtype can hold; `encode` turns them into the bytes that memory holds.
"""

import numpy as np


class DType:
    """One element type: its code in case files, its category (0 bool, 1 integer, 2 float, 3 complex) and its sizes."""

    def __init__(self, name, code, category, itemsize, memory, working, mantissa=0, largest=0.0, smallest=0.0):
        self.name, self.code, self.category, self.itemsize = name, code, category, itemsize
        self.memory, self.working = np.dtype(memory), np.dtype(working)
        self.mantissa, self.largest, self.smallest = mantissa, largest, smallest

    def __repr__(self):
        return self.name

    is_float = property(lambda self: self.category == 2)
    is_complex = property(lambda self: self.category == 3)
    is_integral = property(lambda self: self.category <= 1)
    is_unsigned = property(lambda self: self.memory.kind == "u" and self.category == 1)


# The codes are those of `ScalarType` in libtorch, so that files stay readable when new types come.
_LIST = [
    DType("uint8", 0, 1, 1, "u1", "u1"),
    DType("int8", 1, 1, 1, "i1", "i1"),
    DType("int16", 2, 1, 2, "i2", "i2"),
    DType("int32", 3, 1, 4, "i4", "i4"),
    DType("int64", 4, 1, 8, "i8", "i8"),
    DType("float16", 5, 2, 2, "f2", "f8", 10, 65504.0, 2.0**-24),
    DType("float32", 6, 2, 4, "f4", "f8", 23, float(np.finfo("f4").max), 2.0**-149),
    DType("float64", 7, 2, 8, "f8", "f8", 52, float(np.finfo("f8").max), 2.0**-1074),
    DType("complex32", 8, 3, 4, "V4", "c16", 10, 65504.0, 2.0**-24),
    DType("complex64", 9, 3, 8, "c8", "c16", 23, float(np.finfo("f4").max), 2.0**-149),
    DType("complex128", 10, 3, 16, "c16", "c16", 52, float(np.finfo("f8").max), 2.0**-1074),
    DType("bool", 11, 0, 1, "?", "?"),
    DType("bfloat16", 15, 2, 2, "u2", "f8", 7, float(2.0**128 - 2.0**120), 2.0**-133),
    DType("float8_e5m2", 23, 2, 1, "u1", "f8", 2, 57344.0, 2.0**-16),
    DType("float8_e4m3fn", 24, 2, 1, "u1", "f8", 3, 448.0, 2.0**-9),
    DType("uint16", 27, 1, 2, "u2", "u2"),
    DType("uint32", 28, 1, 4, "u4", "u4"),
    DType("uint64", 29, 1, 8, "u8", "u8"),
]
BY_NAME = {dtype.name: dtype for dtype in _LIST}


def dtype_of(name):
    return name if isinstance(name, DType) else BY_NAME[name]


def _decode_float8(mantissa_bits, bias, has_infinity):
    codes = np.arange(128)
    exponent, fraction = codes >> mantissa_bits, codes & ((1 << mantissa_bits) - 1)
    normal = np.ldexp(1 + fraction / (1 << mantissa_bits), exponent - bias)
    values = np.where(exponent == 0, np.ldexp(fraction / (1 << mantissa_bits), 1 - bias), normal)
    if has_infinity:
        values[124:] = [np.inf, np.nan, np.nan, np.nan]
    else:
        values[127] = np.nan
    return values


_FLOAT8 = {"float8_e4m3fn": _decode_float8(3, 7, False), "float8_e5m2": _decode_float8(2, 15, True)}


def _encode_float8(values, name):
    table = _FLOAT8[name]
    finite = table[np.isfinite(table)]
    middle = (finite[1:] + finite[:-1]) / 2
    size = np.abs(values)
    code = np.searchsorted(middle, size, side="left")
    # A tie goes to the even code.
    tie = (code < len(middle)) & (size == middle[np.minimum(code, len(middle) - 1)])
    code = np.where(tie & (code % 2 == 1), code + 1, code)
    too_big = size >= finite[-1] + (finite[-1] - finite[-2]) / 2
    code = np.where(too_big, 124 if name == "float8_e5m2" else 127, code)
    code = np.where(np.isnan(values), 127, code)
    return (code | (np.signbit(values) << 7)).astype("u1")


def encode(values, dtype):
    """The bytes, as an array of `dtype.memory`, that hold `values`; floats are rounded to nearest even."""
    if dtype.name == "bfloat16":
        flat = np.asarray(values, "f8").reshape(-1)
        bits = flat.astype("f4").view("u4")
        nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")
        return np.where(np.isnan(flat), np.uint16(0x7FC0), nearest).reshape(np.shape(values))
    if dtype.name in _FLOAT8:
        return _encode_float8(np.asarray(values, "f8"), dtype.name)
    if dtype.name == "complex32":
        pairs = np.stack([values.real, values.imag], -1).astype("f2")
        return pairs.reshape(-1).view("V4").reshape(np.shape(values))
    return np.asarray(values).astype(dtype.memory)


def rounded(values, dtype):
    """`values` as the dtype can hold them, in the working type that references see."""
    values = np.asarray(values)
    if dtype.name in ("float64", "complex128") or dtype.is_integral:
        return values.astype(dtype.working)
    memory = encode(values, dtype)
    if dtype.name == "bfloat16":
        return (memory.reshape(-1).astype("u4") << 16).view("f4").reshape(memory.shape).astype("f8")
    if dtype.name in _FLOAT8:
        size = _FLOAT8[dtype.name][memory & 127]
        return np.where(memory >> 7, -size, size)
    if dtype.name == "complex32":
        pairs = memory.reshape(-1).view("f2").reshape(memory.shape + (2,)).astype("f8")
        return pairs[..., 0] + 1j * pairs[..., 1]
    return memory.astype(dtype.working)


_REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def real_of(dtype):
    return BY_NAME[_REAL.get(dtype.name, dtype.name)]


def complex_of(dtype):
    return BY_NAME[{"float16": "complex32", "float64": "complex128"}.get(dtype.name, "complex64")]


def float_of(dtype):
    """The dtype of a function whose result is never an integer: integers give the default dtype."""
    return dtype if dtype.category >= 2 else BY_NAME["float32"]


def _promote_pair(a, b):
    if a is None or a is b:
        return b
    if a.category == 3 or b.category == 3:
        width = [real_of(x) for x in (a, b) if x.category >= 2]
        return complex_of(_promote_pair(*width) if len(width) == 2 else width[0])
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.category == 2:
        if a.itemsize == b.itemsize:  # float16 with bfloat16, or two kinds of float8
            return BY_NAME["float32"]
        return a if a.itemsize > b.itemsize else b
    if a.is_unsigned == b.is_unsigned:
        return a if a.itemsize > b.itemsize else b
    unsigned, signed = (a, b) if a.is_unsigned else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    return BY_NAME[{1: "int16", 2: "int32"}.get(unsigned.itemsize, "int64")]


def promote(tensors, scalars=()):
    """The dtype in which tensors [(dtype, number of dimensions)] and Python scalars meet."""
    dims, zero, wrapped = None, None, None
    for dtype, ndim in tensors:
        if ndim:
            dims = _promote_pair(dims, dtype)
        else:
            zero = _promote_pair(zero, dtype)
    for value in scalars:
        kind = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
        wrapped = _promote_pair(wrapped, BY_NAME["complex64" if isinstance(value, complex) else kind])
    result = dims
    for other in (zero, wrapped):
        if result is None:
            result = other
        elif other is not None and other.category > result.category:
            # A number without dimensions changes the category but never the width of what has dimensions.
            result = complex_of(result) if other.category == 3 and result.category == 2 else other
    return result
