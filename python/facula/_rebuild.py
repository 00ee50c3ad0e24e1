"""Tensors taken apart and put together again: pickling and deep copies.

A pickled tensor is data and nothing else: bytes, dtype, sizes, strides. Tensors that share memory are pickled and
copied one by one, so they do not share it afterwards.
"""
from __future__ import annotations

import copy
import pickle

from . import _native


def rebuild_tensor(data, dtype, size, stride, requires_grad, device="cpu"):
    """A tensor from its parts; pickles call it by name. Without data it has a shape only."""
    made = _native.empty_strided(tuple(size), tuple(stride), dtype=getattr(_native, dtype), device=device)
    if data is not None:
        host = _native.empty_strided(made.shape, made.stride(), dtype=made.dtype) if made.is_cuda else made
        _native._write_bytes(host, data)
        if host is not made:
            made.copy_(host)
    return made.requires_grad_() if requires_grad else made


def reduce_tensor(tensor, protocol):
    """What pickle stores for a tensor."""
    source = tensor.detach()
    data = None
    if not source.is_meta:
        if not _native._is_dense(source):
            source = source.contiguous()
        source = source.cpu()
        flat = source.as_strided((source.numel(),), (1,)).view(_native.uint8) if source.numel() else b""
        # From protocol 5 on the memory goes into the pickle, or past it, without a copy on the way.
        data = pickle.PickleBuffer(flat) if protocol >= 5 else bytes(flat)
    dtype = str(tensor.dtype).rpartition(".")[2]
    parts = (data, dtype, tuple(source.shape), source.stride(), tensor.requires_grad, str(tensor.device))
    attributes = tensor.__dict__
    return (rebuild_tensor, parts, dict(attributes)) if attributes else (rebuild_tensor, parts)


def rebuild_generator(device, state):
    """A generator that goes on where another one was; pickles and copies call it by name."""
    return _native.Generator(device).set_state(state)


def deepcopy_tensor(tensor, memo):
    """A copy with memory, gradient and attributes of its own."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
                           "at the moment; use tensor.detach() or tensor.clone()")
    made = tensor.detach().clone()
    if tensor.requires_grad:
        made.requires_grad_()
    memo[id(tensor)] = made
    if tensor.grad is not None:
        made.grad = copy.deepcopy(tensor.grad, memo)
    if tensor.__dict__:
        made.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    return made
