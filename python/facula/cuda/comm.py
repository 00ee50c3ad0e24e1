"""Tensors that go from one GPU to several and back."""
from typing import Any

from .. import _native
from ._devices import index_of

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _on(index: int) -> "_native.device":
    return _native.device("cuda", index) if index >= 0 else _native.device("cpu")


def broadcast(tensor: "_native.Tensor", devices: Any = None, *, out: Any = None) -> "tuple[_native.Tensor, ...]":
    """Copies of a tensor on several GPUs, or into the tensors of `out`."""
    if (devices is None) == (out is None):
        raise _native.ArgumentError("broadcast(): Exactly one of 'devices' and 'out' must be specified")
    if out is not None:
        for each in out:
            each.copy_(tensor, non_blocking=True)
        return tuple(out)
    return tuple(tensor.to(_on(index_of(d)), non_blocking=True) for d in devices)


def broadcast_coalesced(
    tensors: Any, devices: Any, buffer_size: int = 10485760
) -> "tuple[tuple[_native.Tensor, ...], ...]":
    """Copies of several tensors on several GPUs: a tuple for each GPU."""
    return tuple(tuple(t.to(_on(index_of(d)), non_blocking=True) for t in tensors) for d in devices)


def reduce_add(inputs: Any, destination: Any = None) -> "_native.Tensor":
    """The sum of tensors of one shape on several GPUs, on one of them."""
    if not inputs:
        raise _native.ArgumentError("reduce_add(): expected at least one tensor")
    where = _on(index_of(destination))
    for place, each in enumerate(inputs):
        if each.shape != inputs[0].shape:
            raise _native.ShapeError(f"reduce_add(): input {place} has shape {tuple(each.shape)}, "
                                     f"input 0 has {tuple(inputs[0].shape)}; they must be the same")
    total = inputs[0].to(where, copy=True)
    for each in inputs[1:]:
        total += each.to(where, non_blocking=True)
    return total


def reduce_add_coalesced(
    inputs: Any, destination: Any = None, buffer_size: int = 10485760
) -> "tuple[_native.Tensor, ...]":
    """The sums of lists of tensors on several GPUs: a tuple, on one of them."""
    return tuple(reduce_add(list(each), destination) for each in zip(*inputs))


def scatter(
    tensor: "_native.Tensor", devices: Any = None, chunk_sizes: Any = None, dim: int = 0, streams: Any = None,
    *, out: Any = None
) -> "tuple[_native.Tensor, ...]":
    """The pieces of a tensor along a dim on several GPUs, or in the tensors of `out`."""
    if out is not None:
        pieces = tensor.split([o.shape[dim] for o in out], dim)
        for piece, each in zip(pieces, out):
            each.copy_(piece, non_blocking=True)
        return tuple(out)
    if devices is None:
        raise _native.ArgumentError("scatter(): one of 'devices' and 'out' must be specified")
    indices = [index_of(d) for d in devices]
    if chunk_sizes is None:
        pieces = tensor.chunk(len(indices), dim)
    else:
        if sum(chunk_sizes) != tensor.shape[dim] or len(chunk_sizes) != len(indices):
            raise _native.ShapeError(f"scatter(): chunk_sizes {list(chunk_sizes)} must have an entry for each of "
                                     f"{len(indices)} devices and add up to {tensor.shape[dim]}")
        pieces = tensor.split(list(chunk_sizes), dim)
    return tuple(piece.to(_on(i), non_blocking=True) for piece, i in zip(pieces, indices))


def gather(tensors: Any, dim: int = 0, destination: Any = None, *, out: Any = None) -> "_native.Tensor":
    """Tensors of several GPUs joined along a dim on one of them, or on the cpu."""
    if out is not None:
        start = 0
        for each in tensors:
            out.narrow(dim, start, each.shape[dim]).copy_(each, non_blocking=True)
            start += each.shape[dim]
        return out
    if destination == "cpu" or destination == -1 or (isinstance(destination, _native.device) and
                                                     destination.type == "cpu"):
        where = _native.device("cpu")
    else:
        where = _on(index_of(destination))
    return _native.cat([t.to(where) for t in tensors], dim)
