"""Functions of each element. Two arrays meet in their common dtype; either may be a Python number."""

import facula

from ._data_types import _is, _together

_native = facula._native


def _unary(name, op, doc):
    def function(x, /):
        return op(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _binary(name, op, doc):
    def function(x1, x2, /):
        if not (_is(x1) and _is(x2) and x1.dtype is x2.dtype):
            x1, x2 = _together(x1, x2)
        return op(x1, x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _whole(name, op, doc):
    """A rounding function: integers are what they are."""

    def rounding(x):
        return op(x) if x.dtype.is_floating_point or x.dtype.is_complex else x.clone()

    return _unary(name, rounding, doc)


abs = _unary("abs", _native.abs, "The magnitude.")
acos = _unary("acos", _native.acos, "The inverse of the cosine.")
acosh = _unary("acosh", _native.acosh, "The inverse of the hyperbolic cosine.")
add = _binary("add", _native.add, "The sum.")
asin = _unary("asin", _native.asin, "The inverse of the sine.")
asinh = _unary("asinh", _native.asinh, "The inverse of the hyperbolic sine.")
atan = _unary("atan", _native.atan, "The inverse of the tangent.")
atan2 = _binary("atan2", _native.atan2, "The angle of the point (x2, x1).")
atanh = _unary("atanh", _native.atanh, "The inverse of the hyperbolic tangent.")
bitwise_and = _binary("bitwise_and", _native.bitwise_and, "Bits set in both.")
bitwise_invert = _unary("bitwise_invert", _native.bitwise_not, "Bits inverted.")
bitwise_left_shift = _binary("bitwise_left_shift", _native.bitwise_left_shift, "Bits shifted to the left.")
bitwise_or = _binary("bitwise_or", _native.bitwise_or, "Bits set in either.")
bitwise_right_shift = _binary("bitwise_right_shift", _native.bitwise_right_shift, "Bits shifted to the right.")
bitwise_xor = _binary("bitwise_xor", _native.bitwise_xor, "Bits set in one of the two.")
ceil = _whole("ceil", _native.ceil, "The next whole number above.")
conj = _unary("conj", _native.conj, "The complex conjugate.")
copysign = _binary("copysign", _native.copysign, "The magnitude of x1 with the sign of x2.")
cos = _unary("cos", _native.cos, "The cosine.")
cosh = _unary("cosh", _native.cosh, "The hyperbolic cosine.")
divide = _binary("divide", _native.div, "The quotient.")
equal = _binary("equal", _native.eq, "Whether x1 is x2.")
exp = _unary("exp", _native.exp, "The exponential.")
expm1 = _unary("expm1", _native.expm1, "The exponential less one, exact near zero.")
floor = _whole("floor", _native.floor, "The next whole number below.")
floor_divide = _binary("floor_divide", _native.floor_divide, "The quotient, rounded down.")
greater = _binary("greater", _native.gt, "Whether x1 is greater than x2.")
greater_equal = _binary("greater_equal", _native.ge, "Whether x1 is greater than or equal to x2.")
hypot = _binary("hypot", _native.hypot, "The length of the hypotenuse.")
isfinite = _unary("isfinite", _native.isfinite, "Whether the number is finite.")
isinf = _unary("isinf", _native.isinf, "Whether the number is infinite.")
isnan = _unary("isnan", _native.isnan, "Whether the number is NaN.")
less = _binary("less", _native.lt, "Whether x1 is less than x2.")
less_equal = _binary("less_equal", _native.le, "Whether x1 is less than or equal to x2.")
log = _unary("log", _native.log, "The natural logarithm.")
log1p = _unary("log1p", _native.log1p, "The logarithm of one more, exact near zero.")
log2 = _unary("log2", _native.log2, "The logarithm to base 2.")
log10 = _unary("log10", _native.log10, "The logarithm to base 10.")
logaddexp = _binary("logaddexp", _native.logaddexp, "The logarithm of the sum of exponentials.")
logical_and = _binary("logical_and", _native.logical_and, "Whether both hold.")
logical_not = _unary("logical_not", _native.logical_not, "Whether it does not hold.")
logical_or = _binary("logical_or", _native.logical_or, "Whether one of them holds.")
logical_xor = _binary("logical_xor", _native.logical_xor, "Whether exactly one of them holds.")
maximum = _binary("maximum", _native.maximum, "The larger of two numbers; NaN when one is NaN.")
minimum = _binary("minimum", _native.minimum, "The smaller of two numbers; NaN when one is NaN.")
multiply = _binary("multiply", _native.mul, "The product.")
negative = _unary("negative", _native.neg, "The number with the other sign.")
nextafter = _binary("nextafter", _native.nextafter, "The next number from x1 towards x2.")
not_equal = _binary("not_equal", _native.ne, "Whether x1 differs from x2.")
positive = _unary("positive", _native.positive, "The number itself.")
pow = _binary("pow", _native.pow, "x1 raised to x2.")
real = _unary("real", _native.real, "The real part.")
reciprocal = _unary("reciprocal", _native.reciprocal, "One divided by the number.")
signbit = _unary("signbit", _native.signbit, "Whether the sign bit is set.")
sin = _unary("sin", _native.sin, "The sine.")
sinh = _unary("sinh", _native.sinh, "The hyperbolic sine.")
sqrt = _unary("sqrt", _native.sqrt, "The square root.")
square = _unary("square", _native.square, "The square.")
subtract = _binary("subtract", _native.sub, "The difference.")
tan = _unary("tan", _native.tan, "The tangent.")
tanh = _unary("tanh", _native.tanh, "The hyperbolic tangent.")
trunc = _whole("trunc", _native.trunc, "The next whole number towards zero.")


def imag(x, /):
    """The imaginary part: zero of a real number."""
    return _native.imag(x) if x.dtype.is_complex else _native.zeros_like(x)


def round(x, /):
    """The nearest whole number, the even one of two; of complex numbers each part."""
    if x.dtype.is_complex:
        return _native.complex(_native.round(_native.real(x)), _native.round(_native.imag(x)))
    return _native.round(x) if x.dtype.is_floating_point else x.clone()


def _remainder(x1, x2):
    made = _native.remainder(x1, x2)
    # A remainder of zero has the sign of x2 as well.
    return _native.where(made == 0, _native.copysign(made, x2), made) if made.dtype.is_floating_point else made


remainder = _binary("remainder", _remainder, "What floor_divide leaves, with the sign of x2.")


def sign(x, /):
    """-1, 0 or 1; NaN of NaN; of complex numbers the number divided by its magnitude."""
    if x.dtype.is_complex:
        return _native.sgn(x)
    if x.dtype.is_floating_point:
        return _native.where(_native.isnan(x), x, _native.sign(x))
    return _native.sign(x)


def clip(x, /, min=None, max=None):
    """The number moved into the range from `min` to `max`; NaN stays."""

    def bound(limit):
        return limit.to(x.dtype) if _is(limit) and limit.dtype is not x.dtype else limit

    made = x
    if min is not None:
        low = bound(min) if _is(min) else facula.tensor(min, dtype=x.dtype, device=x.device)
        made = _native.maximum(made, low)
    if max is not None:
        high = bound(max) if _is(max) else facula.tensor(max, dtype=x.dtype, device=x.device)
        made = _native.minimum(made, high)
    return x.clone() if made is x else made


__all__ = [name for name in dir() if not name.startswith("_") and name != "facula"]
