"""Special functions, under the names of SciPy and PyTorch."""
from . import _native
from ._arguments import need_tensor as _need_tensor
from ._products import mvlgamma as multigammaln  # noqa: F401

digamma = psi = _native.digamma
erf, erfc, erfinv, exp2, expm1, log1p = (_native.erf, _native.erfc, _native.erfinv, _native.exp2, _native.expm1,
                                         _native.log1p)
expit = _native.sigmoid
gammaln = _native.lgamma
i0, i1 = _native.i0, _native.special_i1
log_softmax, logit, logsumexp = _native.log_softmax, _native.logit, _native.logsumexp
round, sinc, softmax, xlogy = _native.round, _native.sinc, _native.softmax, _native.xlogy


def polygamma(n, input, *, out=None):
    """The n-th derivative of digamma."""
    return _native.polygamma(n, input) if out is None else _native.polygamma(n, input, out=out)


def entr(input):
    """-x log x, with 0 at 0 and minus infinity below."""
    _need_tensor("entr", input=input)
    return _native.where(input < 0, -float("inf"), -_native.xlogy(input, input))


def ndtr(input):
    """The area under the standard normal density up to each entry."""
    _need_tensor("ndtr", input=input)
    return 0.5 * _native.erfc(input * -0.7071067811865476)


def xlog1py(input, other):
    """x log(1 + y), with 0 where x is 0 and y is a number."""
    value = input * _native.log1p(other)
    return _native.where((input == 0) & ~_native.isnan(other), _native.zeros_like(value), value)
