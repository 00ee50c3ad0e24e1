"""Methods and attributes of tensors that are no ops."""
import numpy as np
import pytest

import facula


def test_what_it_is():
    x = facula.zeros(2, 3, 4)
    assert x.shape == (2, 3, 4) and isinstance(x.shape, facula.Size) and x.size() == x.shape
    assert x.size(0) == 2 and x.size(-1) == 4 and x.size(dim=1) == 3
    assert x.stride() == (12, 4, 1) and x.stride(0) == 12 and type(x.stride()) is tuple
    assert x.dim() == x.ndim == x.ndimension() == 3
    assert x.numel() == x.nelement() == 24
    assert x.element_size() == x.itemsize == 4 and x.nbytes == 96
    assert x.dtype is facula.float32 and x.device == facula.device("cpu") and x.layout is facula.strided
    assert x.is_cpu and not x.is_cuda and not x.is_meta and not x.is_sparse and not x.is_quantized
    assert x[1].storage_offset() == 12 and x[1].data_ptr() == x.data_ptr() + 48
    assert x.get_device() == -1
    with pytest.raises(IndexError):
        x.size(3)
    with pytest.raises(TypeError):
        x.size(1, 2)
    with pytest.raises(TypeError):
        x.size(axis=1)


def test_kinds():
    assert facula.ones(1).is_floating_point() and not facula.ones(1).is_complex()
    assert facula.tensor(1j).is_complex() and facula.tensor(1).is_signed()
    assert not facula.tensor(1, dtype=facula.uint8).is_signed()


def test_contiguity():
    x = facula.zeros(2, 3)
    assert x.is_contiguous() and not x.t().is_contiguous() and x.t().contiguous().is_contiguous()
    y = facula.zeros(2, 3, 4, 5).contiguous(memory_format=facula.channels_last)
    assert y.is_contiguous(memory_format=facula.channels_last) and not y.is_contiguous()


def test_to():
    x = facula.arange(3)
    assert x.to(facula.int64) is x and x.to("cpu") is x and x.to(facula.device("cpu")) is x and x.to() is x
    assert x.to(facula.float32).dtype is facula.float32
    assert x.to(dtype=facula.float64).dtype is facula.float64
    assert x.to("cpu", facula.int8).dtype is facula.int8
    assert x.to("cpu", dtype=facula.int8).dtype is facula.int8
    assert x.to(device="cpu", dtype=facula.int8, non_blocking=True).dtype is facula.int8
    assert x.to(None, facula.float16).dtype is facula.float16
    assert x.to(facula.ones(1, dtype=facula.float64)).dtype is facula.float64
    assert x.to(other=facula.ones(1, dtype=facula.float64)).dtype is facula.float64
    copied = x.to(facula.int64, copy=True)
    assert copied is not x and copied.data_ptr() != x.data_ptr()
    assert x.to(facula.int64, False, True) is not x
    assert x.to("meta").is_meta
    assert x.to(float).dtype is facula.float64
    y = facula.zeros(1, 2, 3, 4).to(memory_format=facula.channels_last)
    assert y.is_contiguous(memory_format=facula.channels_last)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        x.to([1])
    with pytest.raises(TypeError):
        x.to(facula.int64, device="cpu")
    with pytest.raises(TypeError):
        x.to(nothing=1)
    with pytest.raises(RuntimeError):
        x.cuda()
    z = facula.ones(2, requires_grad=True)
    z.to(facula.float64).sum().backward()
    assert z.grad.dtype is facula.float32 and z.grad.tolist() == [1, 1]


@pytest.mark.parametrize("method, name", [
    ("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("int", "int32"),
    ("long", "int64"), ("short", "int16"), ("char", "int8"), ("byte", "uint8"), ("bool", "bool"),
    ("cfloat", "complex64"), ("cdouble", "complex128"), ("chalf", "complex32"),
])
def test_conversions(method, name):
    x = facula.tensor([0.0, 1.0])
    made = getattr(x, method)()
    assert made.dtype is getattr(facula, name) and made.tolist() == [0, 1]
    assert getattr(made, method)() is made


def test_type():
    x = facula.ones(2)
    assert x.type() == "facula.FloatTensor" and facula.tensor(1).type() == "facula.LongTensor"
    assert x.type(facula.int32).dtype is facula.int32 and x.type("facula.DoubleTensor").dtype is facula.float64
    with pytest.raises(ValueError):
        x.type("nothing")


def test_item():
    assert facula.tensor([[2.5]]).item() == 2.5
    assert facula.tensor(3).item() == 3 and isinstance(facula.tensor(3).item(), int)
    assert facula.tensor(True).item() is True and facula.tensor(1 + 2j).item() == 1 + 2j
    assert facula.tensor(2**64 - 1, dtype=facula.uint64).item() == 2**64 - 1
    with pytest.raises(RuntimeError, match="3 elements cannot be converted to Scalar"):
        facula.ones(3).item()


def test_transposes():
    x = facula.arange(6).reshape(2, 3)
    a = np.arange(6).reshape(2, 3)
    assert x.T.tolist() == a.T.tolist() == x.mT.tolist() == x.H.tolist() == x.mH.tolist() == x.adjoint().tolist()
    z = facula.tensor([[1 + 1j, 2 - 1j]])
    assert z.H.tolist() == [[1 - 1j], [2 + 1j]] and z.mH.tolist() == z.H.tolist()
    with pytest.warns(UserWarning, match="deprecated"):
        assert facula.zeros(2, 3, 4).T.shape == (4, 3, 2)
    with pytest.raises(RuntimeError, match="only supported on matrices"):
        facula.zeros(2, 3, 4).H
    assert facula.zeros(2, 3, 4).mT.shape == (2, 4, 3)


def test_complex_parts():
    z = facula.tensor([1 + 2j, 3 - 4j])
    assert z.real.tolist() == [1, 3] and z.imag.tolist() == [2, -4]
    z.real = facula.tensor([5.0, 6.0])
    z.imag = 0
    assert z.tolist() == [5, 6]
    x = facula.ones(2)
    assert x.real.tolist() == [1, 1]
    assert not x.is_conj() and x.resolve_conj() is x
    assert complex(facula.tensor(1 + 2j)) == 1 + 2j


def test_data():
    x = facula.ones(2, requires_grad=True)
    assert not x.data.requires_grad and x.data.data_ptr() == x.data_ptr()
    x.data = facula.zeros(3)
    assert x.tolist() == [0, 0, 0] and x.requires_grad
    with pytest.raises(TypeError):
        x.data = [1]
    with pytest.raises(TypeError):
        del x.data


def test_index_put():
    x = facula.zeros(3)
    index = (facula.tensor([0, 0, 2]),)
    assert x.index_put_(index, facula.tensor([1.0, 2.0, 3.0]), accumulate=True) is x
    assert x.tolist() == [3, 0, 3]
    made = x.index_put([facula.tensor([1])], facula.tensor(9.0))
    assert made.tolist() == [3, 9, 3] and x.tolist() == [3, 0, 3]
    with pytest.raises(TypeError):
        x.index_put_(3, facula.tensor(1.0))


def test_apply_and_map():
    x = facula.arange(4.0).reshape(2, 2)
    assert x.apply_(lambda v: v * 2) is x and x.tolist() == [[0, 2], [4, 6]]
    x.map_(facula.ones(2, 2), lambda a, b: a + b)
    assert x.tolist() == [[1, 3], [5, 7]]
    with pytest.raises(ZeroDivisionError):
        x.apply_(lambda v: 1 / 0)
    with pytest.raises(RuntimeError, match="requires grad"):
        facula.ones(1, requires_grad=True).apply_(abs)


def test_comparing_shapes():
    x = facula.zeros(2, 3)
    assert x.is_same_size(facula.ones(2, 3)) and not x.is_same_size(facula.ones(3, 2))
    assert x.reshape_as(facula.ones(6)).shape == (6,)
    assert x.is_set_to(x[:]) and not x.is_set_to(x.clone())
    with pytest.raises(TypeError):
        x.is_same_size(3)


def test_format():
    assert f"{facula.tensor(2.5):.3f}" == "2.500" and f"{facula.tensor(7):05d}" == "00007"
    x = facula.ones(2)
    assert f"{x}" == str(x) == repr(x)
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{x:.2f}"


def test_attributes_of_users():
    x = facula.ones(2)
    x.note = "a"
    assert x.note == "a" and x.__dict__ == {"note": "a"} and "note" in dir(x) and "sum" in dir(x)
    with pytest.raises(AttributeError):
        x.nothing
    with pytest.raises((AttributeError, TypeError)):
        x.shape = (2,)


def test_the_constructor_takes_sizes_or_data():
    for t, shape in ((facula.Tensor(), (0,)), (facula.Tensor(2, 3), (2, 3)), (facula.Tensor(np.int64(2)), (2,)),
                     (facula.Tensor(facula.Size([4, 1])), (4, 1)), (facula.Tensor(facula.Size([])), ())):
        assert t.shape == shape and t.dtype is facula.float32 and type(t) is facula.Tensor
    assert facula.Tensor([2, 3]).tolist() == [2.0, 3.0] and facula.Tensor((2, 3)).tolist() == [2.0, 3.0]
    assert facula.Tensor([[1], [2]]).shape == (2, 1) and facula.Tensor([]).shape == (0,)
    assert facula.Tensor(np.arange(3)).tolist() == [0.0, 1.0, 2.0]
    assert facula.Tensor(2, device="meta").is_meta
    x = facula.ones(2)
    other = facula.Tensor(x)
    assert other is not x and other.data_ptr() == x.data_ptr()
    facula.set_default_dtype(facula.float64)
    try:
        assert facula.Tensor([1]).dtype is facula.float64
    finally:
        facula.set_default_dtype(facula.float32)
    with pytest.raises(TypeError, match=r"Tensor\(\): expected a tensor of facula.float32 \(got facula.int64\)"):
        facula.Tensor(facula.arange(2))
    with pytest.raises(TypeError, match=r"data must be a sequence \(got float\)"):
        facula.Tensor(2.5)
    with pytest.raises(TypeError, match=r"data must be a sequence \(got list, int\)"):
        facula.Tensor([1], 2)
    with pytest.raises(TypeError, match="unexpected keyword"):
        facula.Tensor([1], dtype=facula.float32)
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        facula.Tensor(-1)
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Mine", (facula.Tensor,), {})


@pytest.mark.parametrize("name, dtype", [
    ("BFloat16Tensor", "bfloat16"), ("BoolTensor", "bool"), ("ByteTensor", "uint8"), ("CharTensor", "int8"),
    ("DoubleTensor", "float64"), ("FloatTensor", "float32"), ("HalfTensor", "float16"), ("IntTensor", "int32"),
    ("LongTensor", "int64"), ("ShortTensor", "int16"),
])
def test_constructors_of_one_dtype(name, dtype):
    kind, dtype = getattr(facula, name), getattr(facula, dtype)
    t = kind([0, 1, 1])
    assert t.dtype is dtype and t.tolist() == [0, 1, 1] and kind(2, 3).shape == (2, 3)
    assert isinstance(t, kind) and isinstance(t, facula.Tensor) and not isinstance([0, 1], kind)
    assert t.type() == f"facula.{name}" and kind.__module__ == "facula" and kind.__name__ == name
    other = facula.LongTensor if name != "LongTensor" else facula.FloatTensor
    assert not isinstance(t, other) and isinstance(t.type(other), other) and t.type(kind).dtype is dtype
    with pytest.raises(TypeError, match=rf"{name}\(\): expected a tensor of"):
        kind(t.type(other))


def test_type_says_what_it_takes():
    x = facula.ones(2)
    assert x.type("torch.LongTensor").dtype is facula.int64 and x.type(facula.float16).dtype is facula.float16
    for wrong in (np.float32, 3, facula.Tensor):
        with pytest.raises(TypeError, match="argument 'dtype' must be"):
            x.type(wrong)


def test_resize_and_set():
    x = facula.arange(6)
    assert x.resize_(2, 3) is x and x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.resize_((2, 2)).tolist() == [[0, 1], [2, 3]] and x.resize_(size=[1]).tolist() == [0]
    assert x.resize_(100).shape == (100,) and x[:6].tolist() == [0, 1, 2, 3, 4, 5]
    y = facula.empty(0).resize_(1, 2, 3, 4, memory_format=facula.channels_last)
    assert y.stride() == (24, 1, 8, 2) and facula.empty(0).resize_as_(y).shape == (1, 2, 3, 4)
    z = facula.zeros(2, dtype=facula.int64)
    assert z.set_(x) is z and z.data_ptr() == x.data_ptr() and z.shape == (100,)
    with pytest.raises(TypeError, match="element 0 is float"):
        x.resize_(2.0)
    with pytest.raises(TypeError, match="needs the sizes"):
        x.resize_()
    with pytest.raises(RuntimeError, match="negative"):
        x.resize_(-1)
    with pytest.raises(facula.ShapeError, match="overflow"):
        x.resize_(2 ** 40, 2 ** 40)
    with pytest.raises(facula.OutOfMemoryError):
        x.resize_(2 ** 44)
    with pytest.raises(RuntimeError, match="require grad"):
        facula.ones(2, requires_grad=True).resize_(3)
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        z.set_([1])
    with pytest.raises(facula.DTypeError, match="set_"):
        z.set_(facula.ones(2))
    assert x.shape == z.shape == (100,)
