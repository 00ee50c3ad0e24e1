"""The namespace `facula.array_api` against the array API standard 2024.12: names, signatures, promotion, special
values, and what the functions compute, against NumPy.
"""

import inspect
import itertools
import math

import numpy as np
import pytest

import facula
from facula import array_api as xp

# Names and signatures of the standard.

UNARY = """
abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log
log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc
""".split()
BINARY = """
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply
nextafter not_equal pow remainder subtract
""".split()
OTHERS = """
clip(x, /, min=None, max=None)
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, *, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
""".split("\n")
SIGNATURES = {
    **{name: "(x, /)" for name in UNARY},
    **{name: "(x1, x2, /)" for name in BINARY},
    **{line[: line.index("(")]: line[line.index("(") :] for line in OTHERS if line},
}
CONSTANTS = {"e": math.e, "inf": math.inf, "pi": math.pi, "newaxis": None}
DTYPES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128""".split()


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_signature(name):
    assert str(inspect.signature(getattr(xp, name))) == SIGNATURES[name]


def test_names():
    assert len(SIGNATURES) == 133
    for name, value in CONSTANTS.items():
        assert getattr(xp, name) == value
    assert math.isnan(xp.nan)
    for name in DTYPES:
        assert getattr(xp, name) is getattr(facula, name)
    assert xp.__array_api_version__ == "2024.12"
    # Nothing else is public: a name that the standard lacks would tempt portable code.
    public = {name for name in xp.__all__ if not name.startswith("__")}
    assert public == {*SIGNATURES, *CONSTANTS, "nan", *DTYPES}


def test_namespace_of_an_array():
    x = facula.zeros(2)
    assert x.__array_namespace__() is xp
    for version in ("2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError, match="1999.12"):
        x.__array_namespace__(api_version="1999.12")


def test_inspection():
    info = xp.__array_namespace_info__()
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    assert info.default_device() in info.devices()
    assert info.default_dtypes() == {
        "real floating": xp.float32,
        "complex floating": xp.complex64,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    assert sorted(info.dtypes()) == sorted(DTYPES)
    assert list(info.dtypes(kind="real floating")) == ["float32", "float64"]
    assert set(info.dtypes(kind=("bool", "signed integer"))) == {"bool", "int8", "int16", "int32", "int64"}
    with pytest.raises(ValueError, match="kind"):
        info.dtypes(kind="string")


OPERATORS = """
abs add and array_namespace bool complex dlpack dlpack_device eq float floordiv ge getitem gt iadd iand ifloordiv
ilshift imod imul index int invert ior ipow irshift isub itruediv ixor le lshift lt matmul mod mul ne neg or
pos pow radd rand rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rshift rsub rtruediv rxor setitem sub truediv
xor
""".split()


def test_attributes_and_operators_of_an_array():
    x = xp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert x.ndim == 2 and tuple(x.shape) == (2, 3) and tuple(x.T.shape) == (3, 2) and tuple(x.mT.shape) == (3, 2)
    assert x.device == xp.__array_namespace_info__().default_device() and x.dtype is xp.float32
    for name in OPERATORS:
        assert hasattr(facula.Tensor, f"__{name}__"), name
    y = x
    y @= x.mT
    assert y.tolist() == [[14, 32], [32, 77]]


# Promotion.

# Rows and columns in this order; "-" where the standard leaves it open.
PROMOTION = """
        int8    int16   int32   int64   uint8   uint16  uint32  uint64
int8    int8    int16   int32   int64   int16   int32   int64   -
int16   int16   int16   int32   int64   int16   int32   int64   -
int32   int32   int32   int32   int64   int32   int32   int64   -
int64   int64   int64   int64   int64   int64   int64   int64   -
uint8   int16   int16   int32   int64   uint8   uint16  uint32  uint64
uint16  int32   int32   int32   int64   uint16  uint16  uint32  uint64
uint32  int64   int64   int64   int64   uint32  uint32  uint32  uint64
uint64  -       -       -       -       uint64  uint64  uint64  uint64

           float32    float64    complex64  complex128
float32    float32    float64    complex64  complex128
float64    float64    float64    complex128 complex128
complex64  complex64  complex128 complex64  complex128
complex128 complex128 complex128 complex128 complex128

     bool
bool bool
"""


def promotion_rows():
    for block in PROMOTION.strip("\n").split("\n\n"):
        lines = block.split("\n")
        columns = lines[0].split()
        for line in lines[1:]:
            row, *results = line.split()
            yield from ((row, column, result) for column, result in zip(columns, results))


@pytest.mark.parametrize("left, right, expected", promotion_rows())
def test_promotion(left, right, expected):
    a, b = getattr(xp, left), getattr(xp, right)
    if expected == "-":
        with pytest.raises(TypeError):
            xp.result_type(a, b)
        return
    dtype = getattr(xp, expected)
    assert xp.result_type(a, b) is dtype
    assert xp.can_cast(a, b) is (dtype is b)
    # Arrays without dimensions count as much as others.
    for left_shape, right_shape in itertools.product([(), (2,)], repeat=2):
        x, y = xp.ones(left_shape, dtype=a), xp.ones(right_shape, dtype=b)
        assert xp.result_type(x, y) is dtype
        made = xp.logical_or(x, y) if left == "bool" else xp.add(x, y)
        assert made.dtype is (xp.bool if left == "bool" else dtype)
        assert xp.equal(x, y).dtype is xp.bool
        assert xp.where(xp.asarray(True), x, y).dtype is dtype
    assert xp.concat([xp.ones(1, dtype=a), xp.ones(1, dtype=b)]).dtype is dtype
    assert xp.stack([xp.ones(1, dtype=a), xp.ones(1, dtype=b)]).dtype is dtype


@pytest.mark.parametrize("name", DTYPES)
def test_python_numbers_take_the_dtype_of_the_array(name):
    dtype = getattr(xp, name)
    x = xp.ones(2, dtype=dtype)
    numbers = [True] if name == "bool" else [1]
    if xp.isdtype(dtype, ("real floating", "complex floating")):
        numbers.append(1.5)
    if xp.isdtype(dtype, "complex floating"):
        numbers.append(1j)
    for number in numbers:
        assert xp.result_type(x, number) is dtype
        function = xp.logical_or if name == "bool" else xp.multiply
        assert function(x, number).dtype is function(number, x).dtype is dtype


def test_kinds_and_limits():
    assert xp.isdtype(xp.int8, "integral") and xp.isdtype(xp.uint8, "numeric") and xp.isdtype(xp.bool, "bool")
    assert not xp.isdtype(xp.bool, "numeric") and not xp.isdtype(xp.float32, "integral")
    assert xp.isdtype(xp.float32, ("bool", "real floating")) and xp.isdtype(xp.float32, xp.float32)
    with pytest.raises(ValueError, match="kind"):
        xp.isdtype(xp.int8, "number")
    for name in ("float32", "float64"):
        ours, theirs = xp.finfo(getattr(xp, name)), np.finfo(name)
        assert (ours.bits, ours.eps, ours.max, ours.min) == (theirs.bits, theirs.eps, theirs.max, theirs.min)
        assert ours.smallest_normal == theirs.tiny and ours.dtype is getattr(xp, name)
    assert xp.finfo(xp.complex128).dtype is xp.float64
    for name in DTYPES[1:9]:
        ours, theirs = xp.iinfo(getattr(xp, name)), np.iinfo(name)
        assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)


def test_casting():
    x = xp.asarray([1.5, -2.5])
    assert xp.astype(x, xp.int32).tolist() == [1, -2]
    assert xp.astype(x, xp.float32, copy=False) is x and xp.astype(x, xp.float32) is not x
    with pytest.raises(TypeError, match="real"):
        xp.astype(xp.asarray([1j]), xp.float32)


# Special values. NumPy computes in IEEE arithmetic as the standard asks; tables say where it does not or where the
# standard is explicit.

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1e300, -1e300, 5e-324]


def same(got, expected):
    """Equal as numbers and in the sign of zero; NaN is NaN."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype.kind == "b":
        return got == expected
    with np.errstate(all="ignore"):
        close = np.isclose(got, expected, rtol=1e-14, atol=0, equal_nan=True) | (np.abs(got - expected) <= 1e-320)
    return close & ((expected != 0) | (np.signbit(got) == np.signbit(expected)))


NUMPY = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "pow": "power",
    "round": "rint",
}


@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("bitwise_invert", "imag")])
def test_special_values_of_one_number(name):
    x = np.array(SPECIAL)
    with np.errstate(all="ignore"):
        expected = getattr(np, NUMPY.get(name, name))(x)
    got = getattr(xp, name)(xp.asarray(x)).numpy()
    wrong = [(v, g, e) for v, g, e, ok in zip(x, got, expected, same(got, expected)) if not ok]
    assert not wrong, f"{name}: (of, got, must be) {wrong}"


@pytest.mark.parametrize("name", [n for n in BINARY if not n.startswith("bitwise") and n != "floor_divide"])
def test_special_values_of_two_numbers(name):
    a, b = (x.reshape(-1) for x in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = getattr(np, NUMPY.get(name, name))(a, b)
        if name == "pow":  # NumPy's own exception: the standard has NaN for 1 ** NaN or leaves it open
            keep = ~((a == 1) & np.isnan(b))
            a, b, expected = a[keep], b[keep], expected[keep]
        if name in ("maximum", "minimum"):  # which of two zeros comes out is open
            keep = (a != 0) | (b != 0)
            a, b, expected = a[keep], b[keep], expected[keep]
    got = getattr(xp, name)(xp.asarray(a), xp.asarray(b)).numpy()
    wrong = [(u, v, g, e) for u, v, g, e, ok in zip(a, b, got, expected, same(got, expected)) if not ok]
    assert not wrong, f"{name}: (of, and, got, must be) {wrong[:8]}"


INF, NAN = math.inf, math.nan
CASES = {
    "atan2": [
        (0.0, 0.0, 0.0), (0.0, -0.0, math.pi), (-0.0, 0.0, -0.0), (-0.0, -0.0, -math.pi), (1.0, 0.0, math.pi / 2),
        (-1.0, -0.0, -math.pi / 2), (0.0, 1.0, 0.0), (0.0, -1.0, math.pi), (-0.0, -1.0, -math.pi), (1.0, INF, 0.0),
        (1.0, -INF, math.pi), (-1.0, INF, -0.0), (-1.0, -INF, -math.pi), (INF, 1.0, math.pi / 2),
        (-INF, 1.0, -math.pi / 2), (INF, INF, math.pi / 4), (INF, -INF, 3 * math.pi / 4), (-INF, INF, -math.pi / 4),
        (-INF, -INF, -3 * math.pi / 4), (NAN, 1.0, NAN), (1.0, NAN, NAN),
    ],
    "pow": [
        (2.0, NAN, NAN), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (NAN, 1.0, NAN), (2.0, INF, INF), (-2.0, -INF, 0.0),
        (1.0, INF, 1.0), (-1.0, -INF, 1.0), (1.0, 7.0, 1.0), (0.5, INF, 0.0), (-0.5, -INF, INF), (INF, 2.0, INF),
        (INF, -2.0, 0.0), (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, 0.5, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0),
        (0.0, 3.0, 0.0), (0.0, -3.0, INF), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, -3.0, -INF), (-0.0, -2.0, INF),
        (-2.0, 0.5, NAN),
    ],
    "floor_divide": [
        (NAN, 1.0, NAN), (INF, INF, NAN), (INF, -INF, NAN), (0.0, 0.0, NAN), (-0.0, 0.0, NAN), (0.0, 2.0, 0.0),
        (-0.0, 2.0, -0.0), (0.0, -2.0, -0.0), (-0.0, -2.0, 0.0), (1.0, 0.0, INF), (1.0, -0.0, -INF), (-1.0, 0.0, -INF),
        (-1.0, -0.0, INF), (1.0, INF, 0.0), (7.0, 2.0, 3.0), (-7.0, 2.0, -4.0), (7.0, -2.0, -4.0), (-7.0, -2.0, 3.0),
    ],
    "remainder": [
        (NAN, 1.0, NAN), (INF, 1.0, NAN), (-INF, -1.0, NAN), (0.0, 0.0, NAN), (0.0, 2.0, 0.0), (-0.0, 2.0, 0.0),
        (0.0, -2.0, -0.0), (-0.0, -2.0, -0.0), (1.0, 0.0, NAN), (-1.0, -0.0, NAN), (1.0, INF, 1.0), (1.0, -INF, -INF),
        (-1.0, INF, INF), (-1.0, -INF, -1.0), (7.0, 3.0, 1.0), (-7.0, 3.0, 2.0), (7.0, -3.0, -2.0), (-7.0, -3.0, -1.0),
    ],
    "hypot": [
        (INF, NAN, INF), (NAN, -INF, INF), (1.0, NAN, NAN), (NAN, NAN, NAN), (3.0, -4.0, 5.0),
        (1e300, 1e300, math.sqrt(2) * 1e300), (-0.0, 0.0, 0.0), (-2.0, -0.0, 2.0),
    ],
    "copysign": [(0.0, -1.0, -0.0), (-0.0, 1.0, 0.0), (3.0, -0.0, -3.0), (-INF, 0.0, INF), (NAN, -1.0, NAN)],
    "logaddexp": [(NAN, 1.0, NAN), (INF, -INF, INF), (-INF, -INF, -INF), (INF, NAN, NAN), (-INF, 3.0, 3.0)],
    "maximum": [(NAN, 1.0, NAN), (1.0, NAN, NAN), (INF, 1.0, INF)],
    "minimum": [(NAN, 1.0, NAN), (1.0, NAN, NAN), (-INF, 1.0, -INF)],
    "nextafter": [(0.0, 1.0, 5e-324), (1.0, 1.0, 1.0), (-0.0, 0.0, 0.0), (0.0, -0.0, -0.0), (NAN, 1.0, NAN)],
    "multiply": [(INF, 0.0, NAN), (-INF, 2.0, -INF), (0.0, -3.0, -0.0)],
    "divide": [(INF, INF, NAN), (0.0, 0.0, NAN), (1.0, -0.0, -INF), (-1.0, INF, -0.0)],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_special_values_of_the_standard(name):
    a, b, expected = np.array(CASES[name]).T
    got = getattr(xp, name)(xp.asarray(a), xp.asarray(b)).numpy()
    wrong = [(u, v, g, e) for u, v, g, e, ok in zip(a, b, got, expected, same(got, expected)) if not ok]
    assert not wrong, f"{name}: (of, and, got, must be) {wrong}"


UNARY_CASES = {
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (NAN, NAN)],
    "log1p": [(-2.0, NAN), (-1.0, -INF), (-0.0, -0.0), (0.0, 0.0), (INF, INF)],
    "sign": [(NAN, NAN), (-0.0, 0.0), (0.0, 0.0), (-5.0, -1.0), (INF, 1.0)],
    "round": [(0.5, 0.0), (1.5, 2.0), (-0.5, -0.0), (2.5, 2.0), (-2.5, -2.0), (INF, INF)],
    "sqrt": [(-1.0, NAN), (-0.0, -0.0), (INF, INF)],
    "atanh": [(1.0, INF), (-1.0, -INF), (2.0, NAN), (-0.0, -0.0)],
    "ceil": [(-0.5, -0.0), (0.5, 1.0)],
    "trunc": [(-0.5, -0.0), (0.5, 0.0)],
    "reciprocal": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0)],
    "tanh": [(INF, 1.0), (-INF, -1.0), (-0.0, -0.0)],
}


@pytest.mark.parametrize("name", UNARY_CASES)
def test_special_values_of_the_standard_for_one_number(name):
    x, expected = np.array(UNARY_CASES[name]).T
    got = getattr(xp, name)(xp.asarray(x)).numpy()
    wrong = [(v, g, e) for v, g, e, ok in zip(x, got, expected, same(got, expected)) if not ok]
    assert not wrong, f"{name}: (of, got, must be) {wrong}"


COMPLEX_FUNCTIONS = """
abs acos acosh asin asinh atan atanh conj cos cosh exp expm1 imag isfinite isinf isnan log log1p log2 log10 negative
positive real reciprocal round sign sin sinh square sqrt tan tanh
""".split()


@pytest.mark.parametrize("name", COMPLEX_FUNCTIONS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_functions_of_complex_numbers(name, dtype):
    z = np.array([0.5 + 0.25j, -1.5 + 2j, 3 - 0.75j, -0.25 - 2.5j, 1 + 0.5j, 1e-3 + 1e-3j], dtype)
    if name == "sign":
        expected = z / np.abs(z)
    elif name in ("log2", "log10"):
        expected = np.log(z) / math.log(2 if name == "log2" else 10)
    elif name == "log1p":  # NumPy's loses digits near zero
        a, b = z.real.astype("f8"), z.imag.astype("f8")
        expected = np.log1p(a * (2 + a) + b * b) / 2 + 1j * np.arctan2(b, 1 + a)
    else:
        expected = getattr(np, NUMPY.get(name, name))(z)
    got = getattr(xp, name)(xp.asarray(z)).numpy()
    assert got.dtype == (dtype if expected.dtype.kind == "c" else expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=2e-6 if dtype == "complex64" else 1e-13)


# What functions of whole arrays compute.


def ints(*shape):
    return np.random.default_rng(7).integers(-5, 6, shape)


def array(x):
    return xp.asarray(np.array(x))


def equal(got, expected):
    expected = np.asarray(expected)
    assert tuple(got.shape) == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)


AXES = [None, 0, -1, (0, 2), (1,), (0, 1, 2), ()]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_statistics(axis, keepdims):
    x = ints(2, 3, 4).astype("f8")
    for name in ("max", "mean", "min", "prod", "std", "sum", "var", "all", "any"):
        expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
        equal(getattr(xp, name)(array(x), axis=axis, keepdims=keepdims), expected)
    equal(xp.count_nonzero(array(x), axis=axis, keepdims=keepdims), np.count_nonzero(x, axis=axis, keepdims=keepdims))
    if axis != ():
        equal(xp.var(array(x), axis=axis, correction=0.5), np.var(x, axis=axis, ddof=0.5))


def test_dtypes_of_sums():
    for name, expected in {"int8": "int64", "uint8": "uint64", "uint16": "uint64", "uint64": "uint64", "bool": "int64",
                           "float32": "float32", "complex64": "complex64"}.items():
        x = xp.ones((2, 2), dtype=getattr(xp, name))
        for function in (xp.sum, xp.prod):
            assert function(x).dtype is getattr(xp, expected), (function.__name__, name)
            assert function(x, axis=0, dtype=xp.float64).dtype is xp.float64
        assert xp.cumulative_sum(x, axis=0).dtype is getattr(xp, expected)
    assert int(xp.sum(xp.full(300, 255, dtype=xp.uint8))) == 300 * 255


def test_searching():
    x = ints(3, 4)
    for axis in (None, 0, 1):
        for keepdims in (False, True):
            equal(xp.argmax(array(x), axis=axis, keepdims=keepdims), np.argmax(x, axis=axis, keepdims=keepdims))
            equal(xp.argmin(array(x), axis=axis, keepdims=keepdims), np.argmin(x, axis=axis, keepdims=keepdims))
    for got, expected in zip(xp.nonzero(array(x)), np.nonzero(x)):
        equal(got, expected)
    with pytest.raises(ValueError):
        xp.nonzero(xp.asarray(1))
    sequence, values = np.array([1, 3, 3, 7]), ints(2, 3)
    for side in ("left", "right"):
        equal(xp.searchsorted(array(sequence), array(values), side=side), np.searchsorted(sequence, values, side))
    shuffled = sequence[[2, 0, 3, 1]]
    sorter = np.argsort(shuffled)
    equal(xp.searchsorted(array(shuffled), array(values), sorter=array(sorter)), np.searchsorted(sequence, values))
    equal(xp.where(array(x > 0), array(x), 0), np.where(x > 0, x, 0))
    equal(xp.where(array(x > 0), 1, array(x)), np.where(x > 0, 1, x))


@pytest.mark.parametrize("descending", [False, True])
def test_sorting(descending):
    x = ints(5, 6)
    expected = np.sort(x, axis=0)
    equal(xp.sort(array(x), axis=0, descending=descending), expected[::-1] if descending else expected)
    order = xp.argsort(array(x), axis=0, descending=descending).numpy()
    got = np.take_along_axis(x, order, 0)
    equal(array(got), expected[::-1] if descending else expected)
    for column in range(6):  # equal elements keep their order
        for i in range(4):
            assert got[i, column] != got[i + 1, column] or order[i, column] < order[i + 1, column]


def test_sets():
    x = ints(4, 5)
    values, indices, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    made = xp.unique_all(array(x))
    for got, expected in zip(made, (values, indices, inverse.reshape(x.shape), counts)):
        equal(got, expected)
    assert made._fields == ("values", "indices", "inverse_indices", "counts")
    equal(xp.unique_values(array(x)), values)
    equal(xp.unique_counts(array(x)).counts, counts)
    equal(xp.unique_inverse(array(x)).inverse_indices, inverse.reshape(x.shape))
    z = x + 1j * ints(5, 4).T
    for got, expected in zip(xp.unique_inverse(array(z)), np.unique(z, return_inverse=True)):
        equal(got, expected.reshape(got.shape))
    # Each NaN is a value of its own; the two zeros are one.
    odd = xp.unique_counts(xp.asarray([math.nan, 0.0, -0.0, math.nan]))
    assert odd.counts.tolist() == [2, 1, 1]


def test_creation():
    equal(xp.arange(5), np.arange(5))
    equal(xp.arange(2, 9, 3), np.arange(2, 9, 3))
    equal(xp.arange(5, 0), np.arange(5, 0))
    equal(xp.arange(0.5, 3), np.arange(0.5, 3))
    assert xp.arange(3, dtype=xp.float64).dtype is xp.float64 and xp.arange(1.5).dtype is xp.float32
    for k in (-4, -2, 0, 1, 5):
        equal(xp.eye(3, 4, k=k), np.eye(3, 4, k))
        equal(xp.tril(xp.ones((3, 4)), k=k), np.tril(np.ones((3, 4)), k))
        equal(xp.triu(xp.ones((3, 4)), k=k), np.triu(np.ones((3, 4)), k))
    equal(xp.linspace(0, 1, 5), np.linspace(0, 1, 5))
    equal(xp.linspace(0, 1, 5, endpoint=False, dtype=xp.float64), np.linspace(0, 1, 5, endpoint=False))
    equal(xp.linspace(0, 1 + 2j, 5), np.linspace(0, 1 + 2j, 5))
    assert xp.full(2, True).dtype is xp.bool and xp.full(2, 3).dtype is xp.int64
    assert xp.full((2,), 3.0).dtype is xp.float32 and xp.full((2,), 1j).dtype is xp.complex64
    for got, expected in zip(xp.meshgrid(xp.arange(2), xp.arange(3)), np.meshgrid(np.arange(2), np.arange(3))):
        equal(got, expected)
    assert tuple(xp.empty_like(xp.zeros((2, 3)), dtype=xp.int8).shape) == (2, 3)
    assert xp.zeros_like(xp.ones(2, dtype=xp.int8)).dtype is xp.int8
    x = xp.ones(3)
    assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x
    with pytest.raises(ValueError):
        xp.asarray([1, 2], copy=False)
    memory = np.arange(3.0)
    shared = xp.asarray(memory, copy=False)
    memory[0] = 7
    assert shared.tolist() == [7, 1, 2]
    memory[0] = 0
    equal(xp.from_dlpack(memory), memory)
    assert xp.asarray(2.0).shape == () and xp.asarray([[True]]).dtype is xp.bool


def test_shapes():
    x = ints(2, 3, 4)
    equal(xp.concat([array(x), array(x)], axis=1), np.concatenate([x, x], 1))
    equal(xp.concat([array(x), array(x)], axis=None), np.concatenate([x, x], None))
    equal(xp.expand_dims(array(x), axis=-2), np.expand_dims(x, -2))
    for axis in (None, 0, (0, -1)):
        equal(xp.flip(array(x), axis=axis), np.flip(x, axis))
    equal(xp.moveaxis(array(x), 0, -1), np.moveaxis(x, 0, -1))
    equal(xp.moveaxis(array(x), (0, 1), (2, 0)), np.moveaxis(x, (0, 1), (2, 0)))
    equal(xp.permute_dims(array(x), (2, 0, 1)), x.transpose(2, 0, 1))
    equal(xp.repeat(array(x), 2), np.repeat(x, 2))
    equal(xp.repeat(array(x), 2, axis=1), np.repeat(x, 2, 1))
    equal(xp.repeat(array(x), xp.asarray([1, 0, 2]), axis=1), np.repeat(x, [1, 0, 2], 1))
    equal(xp.reshape(array(x), (6, -1)), x.reshape(6, -1))
    with pytest.raises(ValueError):
        xp.reshape(array(x).mT, (24,), copy=False)
    equal(xp.roll(array(x), 5), np.roll(x, 5))
    equal(xp.roll(array(x), 1, axis=(0, 2)), np.roll(x, 1, (0, 2)))
    equal(xp.roll(array(x), (1, -2), axis=(0, 2)), np.roll(x, (1, -2), (0, 2)))
    equal(xp.squeeze(xp.ones((1, 2, 1)), (0, 2)), np.ones(2))
    with pytest.raises(ValueError, match="size 2"):
        xp.squeeze(xp.ones((1, 2, 1)), 1)
    equal(xp.stack([array(x), array(x)], axis=-1), np.stack([x, x], -1))
    equal(xp.tile(array(x), (2, 1, 1, 3)), np.tile(x, (2, 1, 1, 3)))
    for got, expected in zip(xp.unstack(array(x), axis=1), np.moveaxis(x, 1, 0)):
        equal(got, expected)
    equal(xp.broadcast_to(array(x), (5, 2, 3, 4)), np.broadcast_to(x, (5, 2, 3, 4)))
    assert [tuple(t.shape) for t in xp.broadcast_arrays(xp.ones((2, 1)), xp.ones(3))] == [(2, 3), (2, 3)]
    equal(xp.take(array(x), array([2, 0, -1]), axis=2), np.take(x, [2, 0, -1], 2))
    equal(xp.take_along_axis(array(x), array(np.argsort(x, 1)), axis=1), np.sort(x, 1))
    for axis in (0, -1):
        equal(xp.cumulative_sum(array(x), axis=axis), np.cumsum(x, axis))
        equal(xp.cumulative_prod(array(x), axis=axis), np.cumprod(x, axis))
        first = np.insert(np.cumsum(x, axis), 0, 0, axis)
        equal(xp.cumulative_sum(array(x), axis=axis, include_initial=True), first)
        equal(xp.diff(array(x), axis=axis, n=1), np.diff(x, 1, axis))
    equal(xp.diff(array(x), prepend=array(x[..., :1])), np.diff(x, prepend=x[..., :1]))


def test_products():
    a, b = ints(2, 3, 4), ints(4, 5)
    equal(xp.matmul(array(a), array(b)), a @ b)
    equal(xp.matrix_transpose(array(a)), a.swapaxes(1, 2))
    equal(xp.tensordot(array(a), array(b), axes=1), np.tensordot(a, b, 1))
    equal(xp.tensordot(array(a), array(a), axes=((0, 2), (0, 2))), np.tensordot(a, a, ((0, 2), (0, 2))))
    equal(xp.tensordot(array(a), array(b), axes=0), np.tensordot(a, b, 0))
    u, v = ints(3, 4) + 1j * ints(3, 4), ints(4) - 2j * ints(4)
    equal(xp.vecdot(array(u), array(v)), np.sum(u.conj() * v, -1))
    equal(xp.vecdot(array(a), array(a), axis=1), np.sum(a * a, 1))
    with pytest.raises(ValueError):
        xp.matrix_transpose(xp.ones(3))


def test_clip():
    x = ints(3, 4)
    equal(xp.clip(array(x), -2, 3), np.clip(x, -2, 3))
    equal(xp.clip(array(x), min=0), np.clip(x, 0, None))
    equal(xp.clip(array(x), max=array([0, 1, 2, 3])), np.clip(x, None, [0, 1, 2, 3]))
    assert xp.clip(xp.ones(2, dtype=xp.float32), 0, 1).dtype is xp.float32
    assert math.isnan(float(xp.clip(xp.asarray(math.nan), 0, 1)))


def test_elementwise_functions_keep_integers():
    x = xp.asarray([-2, 0, 3], dtype=xp.int16)
    for name in ("ceil", "floor", "round", "trunc", "abs", "sign", "square", "positive", "negative", "conj", "real"):
        assert getattr(xp, name)(x).dtype is xp.int16, name
    assert xp.imag(xp.asarray([1.5])).tolist() == [0.0]
