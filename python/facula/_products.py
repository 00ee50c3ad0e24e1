"""Products and powers composed of ops."""
from __future__ import annotations

import math

from . import _native
from ._arguments import give, need_tensor, several
from ._native import Tensor

__all__ = [
    "float_power", "ldexp", "dist", "addr", "addbmm", "mvlgamma", "vander", "matrix_power", "chain_matmul", "adjoint",
]


def float_power(input, exponent, *, out=None):
    """input to the power exponent, in double precision; one of the two may be a number."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        need_tensor("float_power", input=input)
    made = _native.pow(_wide(input), _wide(exponent))
    return give(made, out)


def _wide(value):
    if not isinstance(value, Tensor):
        return value if isinstance(value, complex) else float(value)
    return value.to(_native.complex128 if value.is_complex() else _native.float64)


def float_power_(input, exponent):
    """`float_power` into a tensor of double precision."""
    made = float_power(input, exponent)
    if made.dtype is not input.dtype:
        raise RuntimeError(f"float_power_(): the base given to float_power_ has dtype {input.dtype} but the "
                           f"operation's result requires dtype {made.dtype}")
    return input.copy_(made)


def ldexp(input, other, *, out=None):
    """input times 2 to the power other."""
    need_tensor("ldexp", input=input, other=other)
    return give(input * _two_to(other, input), out)


def _two_to(other, input):
    """2 to the power other, in the precision of input where that has one."""
    whole = not (other.is_floating_point() or other.is_complex())
    return _native.pow(2.0, other.to(input.dtype) if whole and input.is_floating_point() else other)


def ldexp_(input, other):
    """`ldexp` in place."""
    need_tensor("ldexp_", other=other)
    return input.mul_(_two_to(other, input))


def dist(input, other, p=2):
    """The p-norm of the difference."""
    need_tensor("dist", input=input, other=other)
    return _native.norm(input - other, p)


def addr(input, vec1, vec2, *, beta=1, alpha=1, out=None):
    """beta input + alpha times the outer product of two vectors; with beta 0 the entries of input do not count."""
    need_tensor("addr", input=input, vec1=vec1, vec2=vec2)
    made = _native.outer(vec1, vec2)
    if input.dim() > 2 or tuple(_native.broadcast_tensors((input, made))[0].shape) != tuple(made.shape):
        raise RuntimeError(f"addr(): expand: the shape {tuple(input.shape)} of input does not fit the outer product's "
                           f"{tuple(made.shape)}")
    if alpha != 1:
        made = made * alpha
    if beta == 0:
        made = made.to(_native.promote_types(made.dtype, input.dtype))
    else:
        made = made + (input if beta == 1 else input * beta)
    return give(made, out)


def addr_(input, vec1, vec2, *, beta=1, alpha=1):
    """`addr` in place."""
    return input.copy_(addr(input, vec1, vec2, beta=beta, alpha=alpha))


def addbmm(input, batch1, batch2, *, beta=1, alpha=1, out=None):
    """beta input + alpha times the sum of the products of two batches of matrices."""
    need_tensor("addbmm", input=input, batch1=batch1, batch2=batch2)
    if batch1.dim() != 3 or batch2.dim() != 3:
        raise RuntimeError(f"addbmm(): batch1 and batch2 must be 3D tensors, got {batch1.dim()} and {batch2.dim()} "
                           "dims")
    if batch1.shape[0] != batch2.shape[0] or batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(f"addbmm(): the shapes {tuple(batch1.shape)} and {tuple(batch2.shape)} do not fit: batches "
                           "must be equally long, and columns of batch1 as many as rows of batch2")
    # One product of wide matrices sums over the batch as it goes.
    wide = batch1.transpose(0, 1).reshape(batch1.shape[1], -1)
    high = batch2.reshape(-1, batch2.shape[2])
    if out is not None:
        return _native.addmm(input, wide, high, beta=beta, alpha=alpha, out=out)
    return _native.addmm(input, wide, high, beta=beta, alpha=alpha)


def addbmm_(input, batch1, batch2, *, beta=1, alpha=1):
    """`addbmm` in place."""
    return input.copy_(addbmm(input, batch1, batch2, beta=beta, alpha=alpha))


def mvlgamma(input, p, *, out=None):
    """The logarithm of the gamma function of p dims."""
    need_tensor("mvlgamma", input=input)
    if p < 1:
        raise RuntimeError(f"mvlgamma(): p has to be greater than or equal to 1, got {p}")
    if not input.is_floating_point():
        input = input.to(_native.get_default_dtype())
    shifts = _native.arange(p, dtype=input.dtype, device=input.device) * -0.5
    made = _native.lgamma(input.unsqueeze(-1) + shifts).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)
    return give(made, out)


def mvlgamma_(input, p):
    """`mvlgamma` in place."""
    return input.copy_(mvlgamma(input, p))


def powers(x, count):
    """1, x, x^2, ... along a new last dim."""
    if not (x.is_floating_point() or x.is_complex()):
        x = x.long()
    ones = _native.ones_like(x).unsqueeze(-1)
    if count <= 1:
        return ones[..., :count]
    return _native.cat((ones, x.unsqueeze(-1).expand(x.shape + (count - 1,)).cumprod(-1)), -1)


def vander(x, N=None, increasing=False):
    """The matrix whose rows are the powers of the entries of a vector, the highest first."""
    need_tensor("vander", x=x)
    if x.dim() != 1:
        raise RuntimeError(f"vander(): x must be a one-dimensional tensor, got {x.dim()} dims")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"vander(): N must be non-negative, got {count}")
    made = powers(x, count)
    return made if increasing else made.flip(-1)


def matrix_power(input, n, *, out=None):
    """Square matrices multiplied n times with themselves."""
    need_tensor("matrix_power", input=input)
    if input.dim() < 2 or input.shape[-1] != input.shape[-2]:
        raise RuntimeError(f"matrix_power(): A must be batches of square matrices, but its shape is "
                           f"{tuple(input.shape)}")
    if n < 0:
        raise NotImplementedError(f"matrix_power(): the power {n} needs the inverse, which is not here yet; use n >= 0")
    if n == 0:
        one = _native.eye(input.shape[-1], dtype=input.dtype, device=input.device)
        return give(one.expand(input.shape).clone(memory_format=_native.contiguous_format), out)
    made, square = None, input
    while n:
        if n & 1:
            made = square if made is None else made @ square
        n >>= 1
        if n:
            square = square @ square
    return give(made.clone() if made is input else made, out)


def chain_matmul(*matrices, out=None):
    """The product of matrices in the order that multiplies least; `linalg.multi_dot` is the newer name."""
    from .linalg import multi_dot

    matrices = several(matrices)
    need_tensor("chain_matmul", **{f"matrices[{i}]": m for i, m in enumerate(matrices)})
    if not matrices:
        raise RuntimeError("chain_matmul(): expected one or more matrices, got none")
    for i, m in enumerate(matrices):
        if m.dim() != 2:
            raise RuntimeError(f"chain_matmul(): expected matrices, but number {i} has {m.dim()} dims")
    return give(matrices[0], out) if len(matrices) == 1 else multi_dot(matrices, out=out)


def adjoint(input):
    """The last two dims swapped, and every entry conjugated."""
    need_tensor("adjoint", input=input)
    return input.adjoint()
