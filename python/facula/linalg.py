"""Linear algebra, as far as the library has it: products and norms."""
from . import _native
from ._arguments import give as _give, need_tensor as _need_tensor, need_tensors as _need_tensors
from ._functions import norm as _norm
from ._products import matrix_power as _matrix_power, powers as _powers

cross, matmul = _native.cross, _native.matmul


def vecdot(x, y, *, dim=-1, out=None):
    """Sums of conj(x) times y along a dim."""
    _need_tensor("vecdot", x=x, y=y)
    made = (x.conj() * y).sum(dim)
    return _give(made, out)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices, as a view."""
    _need_tensor("diagonal", A=A)
    return _native.diagonal(A, offset, dim1, dim2)


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The norm of the entries, seen as one vector or as vectors along `dim`."""
    _need_tensor("vector_norm", x=x)
    return _norm(x, ord, dim, keepdim, out=out, dtype=dtype)


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """The norm of matrices: 'fro', 1, -1, inf or -inf."""
    _need_tensor("matrix_norm", A=A)
    if A.dim() < 2:
        raise RuntimeError(f"matrix_norm(): the tensor must have at least 2 dims, got {A.dim()}")
    if dtype is not None:
        A = A.to(dtype)
    if ord == "fro":
        made = _norm(A, 2, list(dim), keepdim)
    elif ord in (1, -1, float("inf"), -float("inf")):
        rows, columns = (d % A.dim() for d in dim)
        inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = A.abs().sum(inner, keepdim=True)
        made = sums.amax(outer, keepdim=True) if ord > 0 else sums.amin(outer, keepdim=True)
        if not keepdim:
            made = made.squeeze(tuple(sorted((rows, columns))))
    elif ord not in ("nuc", 2, -2):
        raise RuntimeError(f"matrix_norm(): Order {ord} not supported; use 'fro', 1, -1, inf or -inf")
    else:
        raise NotImplementedError(f"matrix_norm(): ord {ord!r} needs singular values, which are not here yet; "
                                  "use 'fro', 1, -1, inf or -inf")
    return _give(made, out)


def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """A vector's or a matrix's norm, by the number of dims."""
    _need_tensor("norm", A=A)
    if dim is not None and not isinstance(dim, int) and len(dim) == 2 and ord is not None:
        return matrix_norm(A, ord, dim, keepdim, dtype=dtype, out=out)
    if dim is None and ord is not None and A.dim() == 2:
        return matrix_norm(A, ord, (0, 1), keepdim, dtype=dtype, out=out)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


def multi_dot(tensors, *, out=None):
    """The product of several matrices, in the order that multiplies least."""
    tensors = list(_need_tensors("multi_dot", "tensors", tensors))
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors, got {len(tensors)}")
    first, last = tensors[0].dim() == 1, tensors[-1].dim() == 1
    if first:
        tensors[0] = tensors[0].unsqueeze(0)
    if last:
        tensors[-1] = tensors[-1].unsqueeze(1)
    sizes = [t.shape[0] for t in tensors] + [tensors[-1].shape[1]]
    count = len(tensors)
    cost = [[0] * count for _ in range(count)]
    cut = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i][j], cut[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))

    def product(i, j):
        return tensors[i] if i == j else product(i, cut[i][j]) @ product(cut[i][j] + 1, j)

    made = product(0, count - 1)
    if first:
        made = made.squeeze(0)
    if last:
        made = made.squeeze(-1)
    return _give(made, out)


def matrix_power(A, n, *, out=None):
    """Square matrices multiplied n times with themselves."""
    _need_tensor("matrix_power", A=A)
    return _matrix_power(A, n, out=out)


def vander(x, *, N=None):
    """Matrices whose rows are the powers of the entries along the last dim, the lowest first."""
    _need_tensor("vander", x=x)
    if x.dim() == 0:
        raise RuntimeError("vander(): expected a tensor with at least one dim, got none")
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError(f"vander(): N must be greater than 1, got {count}")
    return _powers(x, count)
