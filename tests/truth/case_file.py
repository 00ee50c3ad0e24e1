"""Writes case files; tests/cpp/case_file.h describes the format and reads it."""

import math
import struct

import numpy as np

from dtypes import DType
from record import MemoryFormat, TensorValue

MAGIC = b"FACCASE1"

# Tags of argument values.
(
    NONE,
    TENSOR,
    INT,
    DOUBLE,
    BOOL,
    COMPLEX,
    STRING,
    INTS,
    DOUBLES,
    TENSORS,
    OPTIONAL_TENSORS,
    DTYPE,
    DEVICE,
    BOOLS,
    FORMAT,
) = range(15)
# Kinds of case.
VALUES, ERROR, RANDOM = range(3)
# Flags of a case: properties to check.
META, INPLACE, OUT, LAYOUTS, THREADS, SIGNED_ZERO, ALIASES, UNDEFINED_VALUES, DEVICES = (1 << n for n in range(9))
# Flags of a gradient case, which stands in a file of its own and has no results; tests/cpp/gradient_properties.h.
DIFFERENTIABLE, MAY_REFUSE, SECOND_ORDER, UNCHECKED = (1 << n for n in range(4))
FIRST_HELD = 1 << 8  # the first float64 or complex128 tensor does not move; the next bits are about the next ones


class Device(str):
    """A device argument, by name."""


class Writer:
    def __init__(self):
        self.parts = []

    def u8(self, x):
        self.parts.append(struct.pack("<B", x))

    def u32(self, x):
        self.parts.append(struct.pack("<I", x))

    def i64(self, *x):
        self.parts.append(struct.pack(f"<{len(x)}q", *x))

    def u64(self, x):
        self.parts.append(struct.pack("<Q", x))

    def f64(self, *x):
        self.parts.append(struct.pack(f"<{len(x)}d", *x))

    def blob(self, data):
        self.u64(len(data))
        self.parts.append(data)

    def string(self, text):
        self.blob(text.encode())

    def shape(self, sizes):
        self.u32(len(sizes))
        self.i64(*sizes)

    def tensor(self, x):
        self.u8(x.dtype.code)
        self.shape(x.sizes)
        self.i64(*x.strides)
        self.i64(x.offset)
        self.blob(x.storage.tobytes())

    def value(self, x):
        if x is None:
            self.u8(NONE)
        elif isinstance(x, TensorValue):
            self.u8(TENSOR)
            self.tensor(x)
        elif isinstance(x, bool):
            self.u8(BOOL)
            self.u8(x)
        elif isinstance(x, int):
            self.u8(INT)
            self.i64(x)
        elif isinstance(x, float):
            self.u8(DOUBLE)
            self.f64(x)
        elif isinstance(x, complex):
            self.u8(COMPLEX)
            self.f64(x.real, x.imag)
        elif isinstance(x, str):
            self.u8(DEVICE if isinstance(x, Device) else FORMAT if isinstance(x, MemoryFormat) else STRING)
            self.string(x)
        elif isinstance(x, DType):
            self.u8(DTYPE)
            self.u8(x.code)
        else:
            self.values(list(x))

    def values(self, x):
        if any(isinstance(e, TensorValue) for e in x):
            holes = any(e is None for e in x)
            self.u8(OPTIONAL_TENSORS if holes else TENSORS)
            self.u32(len(x))
            for e in x:
                if holes:
                    self.u8(e is not None)
                if e is not None:
                    self.tensor(e)
        elif any(isinstance(e, float) for e in x):
            self.u8(DOUBLES)
            self.u32(len(x))
            self.f64(*x)
        elif x and all(isinstance(e, bool) for e in x):
            self.u8(BOOLS)
            self.u32(len(x))
            self.parts.append(bytes(x))
        else:
            self.u8(INTS)
            self.shape(x)

    def truth(self, values, dtype, rtol, atol):
        """An expected tensor: claimed dtype, shape and tolerance, then the values in the widest type of their kind."""
        self.u8(dtype.code)
        self.shape(values.shape)
        self.f64(rtol, atol)
        if math.isnan(rtol):  # only dtype and shape are claimed
            self.blob(b"")
            return
        widest = {0: "u1", 1: "u8" if dtype.is_unsigned else "i8", 2: "f8", 3: "c16"}[dtype.category]
        self.blob(np.ascontiguousarray(values).astype("<" + widest).tobytes())

    def bytes(self):
        return b"".join(self.parts)
