"""Functions whose Python form a schema cannot say: any number of tensors, results that depend on flags."""
from __future__ import annotations

import builtins as _builtins

from . import _native, _products, _statistics
from ._arguments import give as _give, need_tensor as _need_tensor, need_tensors as _need_tensors, several as _several
from ._native import Size, Tensor
from ._products import *  # noqa: F401,F403
from ._statistics import *  # noqa: F401,F403
from ._windows import *  # noqa: F401,F403

__all__ = [
    "is_tensor", "is_storage", "is_floating_point", "is_complex", "is_nonzero", "numel", "einsum", "meshgrid",
    "broadcast_tensors", "broadcast_shapes", "cartesian_prod", "tensordot", "unique", "unique_consecutive", "nonzero",
    "norm", "atleast_1d", "atleast_2d", "atleast_3d", "split", "block_diag", "combinations", "square_",
    "column_stack", "hsplit", "vsplit", "dsplit", "diagflat", "select_scatter", "slice_scatter", "diagonal_scatter",
    "narrow_copy", "unravel_index", "is_conj", "is_neg", "is_same_size", "is_signed", "is_inference", "resolve_conj",
    "resolve_neg", "detach", "detach_", "_assert",
    # _products
    "float_power", "ldexp", "dist", "addr", "addbmm", "mvlgamma", "vander", "matrix_power", "chain_matmul", "adjoint",
    # _statistics
    "cov", "corrcoef", "quantile", "nanquantile", "nanmedian", "mode", "trapezoid", "trapz", "cumulative_trapezoid",
    # _windows
    "bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window", "range",
]


def is_tensor(obj):
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj):
    """Whether `obj` is a storage: none is made visible in Python."""
    return False


def is_floating_point(input):
    """Whether the dtype of a tensor is a floating-point one."""
    _need_tensor("is_floating_point", input=input)
    return input.is_floating_point()


def is_complex(input):
    """Whether the dtype of a tensor is a complex one."""
    _need_tensor("is_complex", input=input)
    return input.is_complex()


def is_nonzero(input):
    """Whether a tensor of one element is not zero."""
    _need_tensor("is_nonzero", input=input)
    if input.numel() != 1:
        raise RuntimeError(f"is_nonzero(): the tensor has {input.numel()} elements, not one; use any() or all()")
    return bool(input)


def numel(input):
    """The number of elements."""
    _need_tensor("numel", input=input)
    return input.numel()


def einsum(*args):
    """Sums of products along indices that an equation names, `einsum('ij,jk->ik', a, b)`, or that lists of numbers
    do, `einsum(a, [0, 1], b, [1, 2], [0, 2])`."""
    if not args:
        raise TypeError("einsum(): an equation such as 'ij,jk->ik' and tensors are needed")
    if isinstance(args[0], Tensor):
        return _native.einsum(*_from_lists(args))
    if not isinstance(args[0], str):
        raise TypeError(f"einsum(): the equation must be a str such as 'ij,jk->ik', not {type(args[0]).__name__}")
    return _native.einsum(args[0], _several(args[1:]))


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _from_lists(args):
    """The equation and the tensors of einsum's form with lists. Letters are ordered as their numbers are, so that a
    result without a list gets the order of the numbers."""
    def word(labels):
        if isinstance(labels, (str, Tensor)) or not hasattr(labels, "__iter__"):
            raise TypeError(f"einsum(): a list of indices must follow each tensor, not {type(labels).__name__}")
        said = ""
        for label in labels:
            if label is Ellipsis:
                said += "..."
            elif not isinstance(label, int) or not 0 <= label < 52:
                raise ValueError(f"einsum(): an index in a list is a number from 0 to 51 or Ellipsis, not {label!r}")
            else:
                said += _LETTERS[label]
        return said

    tensors = args[:len(args) - len(args) % 2:2]
    _need_tensor("einsum", **{f"operands[{i}]": t for i, t in enumerate(tensors)})
    equation = ",".join(word(labels) for labels in args[1::2])
    if len(args) % 2:
        equation += "->" + word(args[-1])
    return equation, tensors


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

    _need_tensor("combinations", input=input)
    if input.dim() != 1:
        raise RuntimeError(f"combinations(): expected a vector, got {input.dim()} dims")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(_builtins.range(input.numel()), r))
    if not rows:
        return input.new_empty((0, r))
    return input[_native.tensor(rows, device=input.device)]


def tensordot(a, b, dims=2, out=None):
    """Sums of products over `dims`: that many last dims of `a` with first dims of `b`, or two lists of dims."""
    _need_tensor("tensordot", a=a, b=b)
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot(): dims must not be negative, got {dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot(): dims is {dims}, but the tensors have {a.dim()} and {b.dim()} dims")
        dims = (list(_builtins.range(a.dim() - dims, a.dim())), list(_builtins.range(dims)))
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    made = _native.tensordot(a, b, first, second)
    return _give(made, out)


def block_diag(*tensors):
    """A matrix with the given matrices along its diagonal."""
    tensors = [_native.atleast_2d(t) for t in _several(tensors)]
    if not tensors:
        return _native.empty(1, 0)
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
    _need_tensor("norm", input=input)
    if p is None or p == "fro":
        p = 2
    elif isinstance(p, str):
        raise RuntimeError(f"norm(): '{p}' is not supported; use a number or 'fro'")
    if dim is None:
        dim = list(_builtins.range(input.dim())) if keepdim else None
    elif isinstance(dim, int):
        dim = [dim]
    if dim is None:
        made = _native.norm(input, p) if dtype is None else _native.norm(input, p, dtype=dtype)
    elif dtype is None:
        made = _native.norm(input, p, dim, keepdim)
    else:
        made = _native.norm(input, p, dim, keepdim, dtype=dtype)
    return _give(made, out)


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


def column_stack(tensors, *, out=None):
    """Vectors and matrices side by side, as columns."""
    tensors = _need_tensors("column_stack", "tensors", tensors)
    return _give(_native.hstack([t.reshape(t.numel(), 1) if t.dim() < 2 else t for t in tensors]), out)


def _split_along(function, input, sections, dim, least):
    _need_tensor(function, input=input)
    if input.dim() < least:
        raise RuntimeError(f"{function}(): requires a tensor with at least {least} dimension, but got a tensor with "
                           f"{input.dim()} dimensions!")
    if isinstance(sections, int):
        if sections <= 0 or input.shape[dim] % sections:
            raise RuntimeError(f"{function}(): attempted to split along dimension {dim}, but the size of the dimension "
                               f"{input.shape[dim]} is not divisible by the split_size {sections}!")
    return _native.tensor_split(input, sections, dim)


def hsplit(input, indices_or_sections):
    """Equal parts side by side, or parts between the given columns."""
    dim = 0 if isinstance(input, Tensor) and input.dim() == 1 else 1
    return _split_along("hsplit", input, indices_or_sections, dim, 1)


def vsplit(input, indices_or_sections):
    """Equal parts one below the other, or parts between the given rows."""
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


def dsplit(input, indices_or_sections):
    """Equal parts along the third dim, or parts between the given places."""
    return _split_along("dsplit", input, indices_or_sections, 2, 3)


def diagflat(input, offset=0):
    """A matrix with all entries of a tensor on its diagonal."""
    _need_tensor("diagflat", input=input)
    return _native.diag(input.reshape(-1), offset)


def _scattered(function, input, src, view):
    """A copy of `input` in which `src` takes the place of what `view` shows."""
    _need_tensor(function, input=input, src=src)
    made = input.clone()
    place = view(made)
    if place.shape != src.shape:
        raise RuntimeError(f"{function}(): expected src to have the size of the slice of input: slice size = "
                           f"{list(place.shape)}, src size = {list(src.shape)}")
    place.copy_(src)
    return made


def select_scatter(input, src, dim, index):
    """A copy of `input` with `src` at one index of a dim."""
    return _scattered("select_scatter", input, src, lambda made: made.select(dim, index))


def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    """A copy of `input` with `src` in a slice of a dim."""
    return _scattered("slice_scatter", input, src, lambda made: _native.slice(made, dim, start, end, step))


def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    """A copy of `input` with `src` on a diagonal."""
    return _scattered("diagonal_scatter", input, src, lambda made: _native.diagonal(made, offset, dim1, dim2))


def narrow_copy(input, dim, start, length):
    """`length` entries of a dim from `start` on, as a copy."""
    _need_tensor("narrow_copy", input=input)
    return input.narrow(dim, start, length).clone(memory_format=_native.contiguous_format)


def unravel_index(indices, shape):
    """The index in each dim of a tensor of the given shape, from indices into its flat entries."""
    _need_tensor("unravel_index", indices=indices)
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is _native.bool:
        raise TypeError(f"unravel_index(): expected integer indices, got {indices.dtype}")
    if isinstance(shape, Tensor):
        shape = shape.tolist()
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 0 for size in shape):
        raise ValueError(f"unravel_index(): 'shape' cannot have negative values, but got {shape}")
    made = []
    for size in reversed(shape):
        made.append(indices.remainder(size))
        indices = indices.div(size, rounding_mode="floor")
    return tuple(reversed(made))


def fill_diagonal_(input, fill_value, wrap=False):
    """Writes a number on the diagonal; with `wrap` the diagonal of a high matrix starts again below."""
    if input.dim() < 2:
        raise RuntimeError(f"fill_diagonal_(): dimensions must larger than 1, got {input.dim()}")
    if input.dim() > 2 and len(set(input.shape)) > 1:
        raise RuntimeError("fill_diagonal_(): all dimensions of input must be of equal length, got "
                           f"{list(input.shape)}")
    if input.dim() == 2:
        input.diagonal().fill_(fill_value)
    else:
        input.as_strided((input.shape[0],), (sum(input.stride()),), input.storage_offset()).fill_(fill_value)
    if wrap and input.dim() == 2:
        rows, columns = input.shape
        for row in _builtins.range(columns + 1, rows, columns + 1):
            input[row:].diagonal().fill_(fill_value)
    return input


def sum_to_size(input, *size):
    """Sums over dims until the shape is `size`, from which the shape came by broadcasting."""
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    extra = input.dim() - len(size)
    if extra < 0 or any(s not in (1, n) for s, n in zip(size, input.shape[extra:])):
        raise RuntimeError(f"sum_to_size(): size {list(size)} is not expandable to size {list(input.shape)}.")
    dims = [extra + i for i, s in enumerate(size) if s == 1 and input.shape[extra + i] != 1]
    made = input.sum(dims, keepdim=True) if dims else input
    return made.sum(list(_builtins.range(extra))) if extra else made


def _from_method(name, doc):
    """The function of a method that takes nothing more: `is_conj(x)` for `x.is_conj()`."""
    def function(input):
        _need_tensor(name, input=input)
        return getattr(input, name)()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


is_conj = _from_method("is_conj", "Whether the entries are seen conjugated.")
is_neg = _from_method("is_neg", "Whether the entries are seen negated.")
is_signed = _from_method("is_signed", "Whether the dtype has negative numbers.")
is_inference = _from_method("is_inference", "Whether a tensor was made in inference mode.")
resolve_conj = _from_method("resolve_conj", "The tensor with its conjugation done.")
resolve_neg = _from_method("resolve_neg", "The tensor with its negation done.")
detach = _from_method("detach", "The same entries, outside the graph.")
detach_ = _from_method("detach_", "Takes a tensor out of the graph.")


def is_same_size(input, other):
    """Whether two tensors have the same shape."""
    _need_tensor("is_same_size", input=input, other=other)
    return input.is_same_size(other)


def _assert(condition, message):
    """Python's assert as a function."""
    assert condition, message


# The first argument of a function is the tensor of the method.
for _function in (unique, unique_consecutive, nonzero, norm, split, is_nonzero, hsplit, vsplit, dsplit, diagflat,
                  select_scatter, slice_scatter, diagonal_scatter, narrow_copy, fill_diagonal_, sum_to_size,
                  _products.float_power, _products.float_power_, _products.ldexp, _products.ldexp_, _products.dist,
                  _products.addr, _products.addr_, _products.addbmm, _products.addbmm_, _products.mvlgamma,
                  _products.mvlgamma_, _products.matrix_power, _statistics.cov, _statistics.corrcoef,
                  _statistics.quantile, _statistics.nanquantile, _statistics.nanmedian, _statistics.mode):
    setattr(Tensor, _function.__name__, _function)
