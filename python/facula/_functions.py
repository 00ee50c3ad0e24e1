"""Functions whose Python form a schema cannot say: any number of tensors, results that depend on flags, names of NumPy."""
from __future__ import annotations

from . import _native
from ._native import Size, Tensor

__all__ = [
    "is_tensor", "is_storage", "is_floating_point", "is_complex", "is_nonzero", "numel", "einsum", "meshgrid",
    "broadcast_tensors", "broadcast_shapes", "cartesian_prod", "tensordot", "unique", "unique_consecutive", "nonzero",
    "norm", "atleast_1d", "atleast_2d", "atleast_3d", "split", "block_diag", "combinations", "square_",
]


def is_tensor(obj):
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj):
    """Whether `obj` is a storage: none is made visible in Python."""
    return False


def is_floating_point(input):
    """Whether the dtype of a tensor is a floating-point one."""
    return input.is_floating_point()


def is_complex(input):
    """Whether the dtype of a tensor is a complex one."""
    return input.is_complex()


def is_nonzero(input):
    """Whether a tensor of one element is not zero."""
    if input.numel() != 1:
        raise RuntimeError(f"is_nonzero(): the tensor has {input.numel()} elements, not one; use any() or all()")
    return bool(input)


def numel(input):
    """The number of elements."""
    return input.numel()


def _several(tensors):
    """`f(a, b)` and `f([a, b])` mean the same."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(tensors[0])
    return tensors


def einsum(equation, *operands):
    """Sums of products along indices that an equation names: `einsum('ij,jk->ik', a, b)`."""
    if not isinstance(equation, str):
        raise TypeError(f"einsum(): the equation must be a str such as 'ij,jk->ik', not {type(equation).__name__}")
    return _native.einsum(equation, _several(operands))


def meshgrid(*tensors, indexing=None):
    """The coordinates of a grid whose axes are the given vectors."""
    if indexing is None:
        return _native.meshgrid(_several(tensors))
    return _native.meshgrid(_several(tensors), indexing=indexing)


def broadcast_tensors(*tensors):
    """The tensors as views of their common shape."""
    return _native.broadcast_tensors(_several(tensors))


def broadcast_shapes(*shapes):
    """The common shape of several shapes."""
    rank = max((1 if isinstance(s, int) else len(s) for s in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        shape = (shape,) if isinstance(shape, int) else shape
        for i, size in enumerate(reversed(shape), 1):
            if size < 0:
                raise RuntimeError(f"broadcast_shapes(): a size cannot be negative, got {size} in {tuple(shape)}")
            if size != 1 and result[-i] not in (1, size):
                raise RuntimeError("broadcast_shapes(): shape mismatch: objects cannot be broadcast to a single shape: "
                                   + ", ".join(str(s) for s in shapes))
            if size != 1:
                result[-i] = size
    return Size(result)


def cartesian_prod(*tensors):
    """All combinations of the elements of several vectors, one in each row."""
    tensors = _several(tensors)
    if len(tensors) == 1:
        return tensors[0]
    return _native.stack([t.reshape(-1) for t in meshgrid(*tensors, indexing="ij")], 1)


def combinations(input, r=2, with_replacement=False):
    """All choices of `r` elements of a vector, one in each row."""
    import itertools

    if input.dim() != 1:
        raise RuntimeError(f"combinations(): expected a vector, got {input.dim()} dims")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input.numel()), r))
    if not rows:
        return input.new_empty((0, r))
    return input[_native.tensor(rows, device=input.device)]


def tensordot(a, b, dims=2, out=None):
    """Sums of products over `dims`: that many last dims of `a` with first dims of `b`, or two lists of dims."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot(): dims must not be negative, got {dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot(): dims is {dims}, but the tensors have {a.dim()} and {b.dim()} dims")
        dims = (list(range(a.dim() - dims, a.dim())), list(range(dims)))
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    made = _native.tensordot(a, b, first, second)
    return made if out is None else out.copy_(made)


def block_diag(*tensors):
    """A matrix with the given matrices along its diagonal."""
    tensors = [_native.atleast_2d(t) for t in _several(tensors)]
    for i, t in enumerate(tensors):
        if t.dim() != 2:
            raise RuntimeError(f"block_diag(): tensor {i} has {t.dim()} dims; expected 2 or fewer")
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = _native.promote_types(dtype, t.dtype)
    rows, columns = sum(t.shape[0] for t in tensors), sum(t.shape[1] for t in tensors)
    made = _native.zeros(rows, columns, dtype=dtype, device=tensors[0].device)
    row = column = 0
    for t in tensors:
        made[row:row + t.shape[0], column:column + t.shape[1]] = t
        row, column = row + t.shape[0], column + t.shape[1]
    return made


def _chosen(first, second, third, return_inverse, return_counts):
    made = (first,) + ((second,) if return_inverse else ()) + ((third,) if return_counts else ())
    return made if len(made) > 1 else first


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, or slices along `dim`; on request where each element went and how often each occurs."""
    if dim is None:
        made = _native.unique(input, sorted, return_inverse, return_counts)
    else:
        made = _native.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _chosen(*made, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Each run of equal elements once."""
    made = _native.unique_consecutive(input, return_inverse, return_counts, dim)
    return _chosen(*made, return_inverse, return_counts)


def nonzero(input, *, out=None, as_tuple=False):
    """Where a tensor is not zero: one row for each place, or one vector for each dim."""
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero(): out is not possible with as_tuple=True")
        return _native.where(input)
    return _native.nonzero(input) if out is None else _native.nonzero(input, out=out)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The p-norm of all elements or along `dim`; 'fro' is the 2-norm."""
    if p is None or p == "fro":
        p = 2
    elif isinstance(p, str):
        raise RuntimeError(f"norm(): '{p}' is not supported; use a number or 'fro'")
    if dim is None:
        dim = list(range(input.dim())) if keepdim else None
    elif isinstance(dim, int):
        dim = [dim]
    if dim is None:
        made = _native.norm(input, p) if dtype is None else _native.norm(input, p, dtype=dtype)
    elif dtype is None:
        made = _native.norm(input, p, dim, keepdim)
    else:
        made = _native.norm(input, p, dim, keepdim, dtype=dtype)
    return made if out is None else out.copy_(made)


def _at_least(native):
    def function(*tensors):
        tensors = _several(tensors) if len(tensors) == 1 else tensors
        return native(tensors) if isinstance(tensors, tuple) and len(tensors) != 1 else native(tensors[0])

    function.__name__ = native.__name__
    function.__doc__ = native.__doc__
    return function


atleast_1d = _at_least(_native.atleast_1d)
atleast_2d = _at_least(_native.atleast_2d)
atleast_3d = _at_least(_native.atleast_3d)


def split(tensor, split_size_or_sections, dim=0):
    """Consecutive pieces along `dim`: of one size, or of the sizes in a list."""
    return _native.split(tensor, split_size_or_sections, dim)


def square_(input):
    """Squares a tensor in place."""
    return input.square_()


def _method(function):
    """The function as a method: `x.unique(...)`."""
    def method(self, *args, **keywords):
        return function(self, *args, **keywords)

    method.__name__ = function.__name__
    method.__qualname__ = f"Tensor.{function.__name__}"
    method.__doc__ = function.__doc__
    return method


for _function in (unique, unique_consecutive, nonzero, norm, split, is_nonzero):
    setattr(Tensor, _function.__name__, _method(_function))
