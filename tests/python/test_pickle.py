"""Pickling and copying of tensors."""
import copy
import pickle

import numpy as np
import pytest

import facula

NAMES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex32", "complex64",
         "complex128", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", NAMES)
def test_every_dtype(name, protocol):
    x = facula.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(facula, name))
    y = pickle.loads(pickle.dumps(x, protocol))
    assert y.dtype is x.dtype and y.shape == x.shape and y.tolist() == x.tolist()
    assert not y._is_view() and y.data_ptr() != x.data_ptr()
    y.fill_(1)
    assert x[0, 0].item() == 0


@pytest.mark.parametrize("make", [
    lambda x: x.t(), lambda x: x[1:, ::2], lambda x: x[0, 0], lambda x: x[:0], lambda x: x[:1].expand(3, 6),
    lambda x: x.permute(1, 0), lambda x: x.reshape(2, 2, 6)[:, 1],
])
def test_views(make):
    x = make(facula.arange(24.0).reshape(4, 6))
    y = pickle.loads(pickle.dumps(x))
    assert y.shape == x.shape and facula.equal(x, y)


def test_strides_are_kept():
    x = facula.arange(6.0).reshape(2, 3).t()
    assert pickle.loads(pickle.dumps(x)).stride() == (1, 3)


def test_gradients_and_attributes():
    x = facula.ones(2, requires_grad=True)
    x.note = {"a": 1}
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad and y.is_leaf and y.note == {"a": 1}
    z = pickle.loads(pickle.dumps(x * 2))
    assert z.requires_grad and z.is_leaf
    meta = pickle.loads(pickle.dumps(facula.empty(2, 3, device="meta")))
    assert meta.is_meta and tuple(meta.shape) == (2, 3)


def test_memory_beside_the_pickle():
    x = facula.arange(1000.0)
    buffers = []
    text = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(text) < 400 and len(buffers) == 1
    assert facula.equal(pickle.loads(text, buffers=buffers), x)


def test_damaged_pickles():
    from facula._rebuild import rebuild_tensor
    with pytest.raises(ValueError):
        rebuild_tensor(b"123", "float32", (2,), (1,), False)


def test_deepcopy():
    x = facula.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    x.tag = [1]
    both = copy.deepcopy([x, x])
    assert both[0] is both[1] and both[0] is not x
    y = both[0]
    assert y.requires_grad and y.is_leaf and y.tag == [1] and y.tag is not x.tag
    assert y.grad.tolist() == [3, 3] and y.grad is not x.grad and y.grad.data_ptr() != x.grad.data_ptr()
    assert y.data_ptr() != x.data_ptr()
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_copy():
    x = facula.ones(2, requires_grad=True)
    x.tag = 1
    y = copy.copy(x)
    assert y is not x and y.data_ptr() == x.data_ptr() and y.requires_grad and y.is_leaf and y.tag == 1
    y.tag = 2
    assert x.tag == 1


def test_numpy_arrays_of_both():
    data = {"a": facula.tensor([1, 2]), "b": np.arange(3)}
    back = pickle.loads(pickle.dumps(data))
    assert back["a"].tolist() == [1, 2] and back["b"].tolist() == [0, 1, 2]
