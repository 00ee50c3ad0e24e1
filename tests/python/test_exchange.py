"""Memory that is shared with NumPy, by the buffer protocol and by DLPack."""
import gc
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest

import facula
from facula.utils import dlpack

DTYPES = ["float64", "float32", "float16", "complex64", "complex128", "int64", "int32", "int16", "int8", "uint64",
          "uint32", "uint16", "uint8", "bool"]


@pytest.mark.parametrize("name", DTYPES)
def test_both_ways(name):
    a = np.arange(6).reshape(2, 3).astype(name)
    t = facula.from_numpy(a)
    assert t.dtype is getattr(facula, name) and t.data_ptr() == a.ctypes.data
    np.testing.assert_array_equal(t.numpy(), a)
    back = t.numpy()
    assert back.dtype == a.dtype and back.dtype.type is a.dtype.type and back.ctypes.data == a.ctypes.data
    back[0, 0] = 1
    assert a[0, 0] == 1 and t[0, 0].item() == 1
    made = facula.ones(3, dtype=getattr(facula, name))
    array = made.numpy()
    array[1] = 0
    assert made[1].item() == 0


@pytest.mark.parametrize("make", [
    lambda a: a, lambda a: a.T, lambda a: a[1:, ::2], lambda a: a[:, :1], lambda a: a[0, 0], lambda a: a[:0],
    lambda a: np.broadcast_to(a[:1], a.shape).copy(order="F"), lambda a: a[..., None], lambda a: a[1:2, ::-1][:, :1],
])
def test_strides(make):
    a = np.asarray(make(np.arange(24.0).reshape(4, 6)))
    t = facula.from_numpy(a)
    assert tuple(t.shape) == a.shape
    np.testing.assert_array_equal(t.numpy(), a)
    np.testing.assert_array_equal(np.asarray(facula.tensor(a)), a)


def test_refused_arrays():
    with pytest.raises(ValueError, match="negative"):
        facula.from_numpy(np.arange(3)[::-1])
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        facula.from_numpy([1])
    with pytest.raises(TypeError, match="The only supported types"):
        facula.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError, match="The only supported types"):
        facula.from_numpy(np.array([object()]))
    with pytest.raises(TypeError, match="The only supported types"):
        facula.from_numpy(np.zeros(2, dtype=[("x", "f4"), ("y", "i4")]))
    with pytest.raises(ValueError, match="byte order"):
        facula.from_numpy(np.arange(3, dtype=">i4"))
    records = np.zeros(3, dtype=[("x", "i1"), ("y", "f4")])
    with pytest.raises(ValueError, match="multiple of the element"):
        facula.from_numpy(records["y"])


def test_read_only_arrays_warn():
    a = np.arange(3)
    a.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        facula.from_numpy(a)
    with pytest.warns(UserWarning, match="not writable"):
        facula.frombuffer(b"1234", dtype=facula.uint8)


def test_the_array_lives_as_long_as_the_tensor():
    a = np.arange(1000.0)
    watch = weakref.ref(a)
    t = facula.from_numpy(a)
    view = t[10:]
    del a, t
    gc.collect()
    assert watch() is not None and view[0].item() == 10
    del view
    gc.collect()
    assert watch() is None
    t = facula.arange(1000.0)
    array = t.numpy()[5:]
    del t
    gc.collect()
    assert array[0] == 5


def test_arrays_are_let_go_on_any_thread():
    a = np.arange(4.0)
    count = sys.getrefcount(a)
    box = [facula.from_numpy(a) for _ in range(10)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert sys.getrefcount(a) == count


def test_numpy_of_tensors_that_have_none():
    with pytest.raises(RuntimeError, match="requires grad"):
        facula.ones(2, requires_grad=True).numpy()
    assert facula.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]
    with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
        facula.ones(2, dtype=facula.bfloat16).numpy()
    with pytest.raises(TypeError, match="meta"):
        facula.empty(2, device="meta").numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(facula.ones(2, requires_grad=True))
    with pytest.raises(TypeError):
        facula.ones(2).numpy(True)


def test_array_protocol():
    t = facula.arange(3)
    assert np.asarray(t).ctypes.data == t.data_ptr()
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    assert t.__array__().dtype == np.int64
    assert t.__array__(np.float64).dtype == np.float64
    assert t.__array__(copy=True).ctypes.data != t.data_ptr()
    assert t.__array__(None, copy=False).ctypes.data == t.data_ptr()
    with pytest.raises(ValueError, match="copy"):
        t.__array__(np.float32, copy=False)
    assert np.array(t).ctypes.data != t.data_ptr()
    np.testing.assert_array_equal(np.stack([t, t]), [[0, 1, 2]] * 2)
    assert np.sum(t.numpy()) == 3


def test_numpy_functions_give_tensors():
    made = np.sin(facula.ones(2))
    assert isinstance(made, facula.Tensor)
    np.testing.assert_allclose(made.numpy(), np.sin(np.ones(2, dtype=np.float32)), rtol=1e-6)
    made = np.ones(2, dtype=np.float32) * facula.ones(2)
    assert isinstance(made, facula.Tensor)


def test_buffer_protocol():
    t = facula.arange(6, dtype=facula.int32).reshape(2, 3)
    view = memoryview(t)
    assert view.shape == (2, 3) and view.format == "i" and view.strides == (12, 4) and not view.readonly
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    view[1, 2] = 50
    assert t[1, 2].item() == 50
    assert bytes(t)[:4] == b"\0\0\0\0"
    strided = memoryview(t.t())
    assert strided.shape == (3, 2) and strided.f_contiguous
    assert memoryview(facula.tensor(3.0)).shape == ()
    assert memoryview(facula.zeros(0, 2)).nbytes == 0
    storage = facula.zeros(4)
    view = memoryview(storage)
    del storage
    gc.collect()
    assert view[0] == 0
    for t in (facula.ones(2, requires_grad=True), facula.ones(2, dtype=facula.bfloat16),
              facula.empty(2, device="meta")):
        with pytest.raises(BufferError):
            memoryview(t)


def test_frombuffer():
    data = bytearray(np.arange(6, dtype=np.int16).tobytes())
    t = facula.frombuffer(data, dtype=facula.int16)
    assert t.tolist() == [0, 1, 2, 3, 4, 5]
    t[0] = 9
    assert data[0] == 9
    assert facula.frombuffer(data, dtype=facula.int16, count=2, offset=4).tolist() == [2, 3]
    with pytest.raises(BufferError):
        data.extend(b"1")
    for wrong in ({"dtype": facula.int32, "offset": 2}, {"dtype": facula.int16, "count": 0},
                  {"dtype": facula.int16, "count": 7}, {"dtype": facula.int16, "offset": 12},
                  {"dtype": facula.int16, "offset": -1}):
        with pytest.raises(ValueError):
            facula.frombuffer(data, **wrong)
    with pytest.raises(ValueError):
        facula.frombuffer(bytearray(), dtype=facula.int8)
    with pytest.raises(TypeError):
        facula.frombuffer([1, 2], dtype=facula.int8)
    assert facula.frombuffer(bytearray(8), dtype=facula.float32, requires_grad=True).requires_grad


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "bool"])
def test_dlpack_with_numpy(name):
    a = np.arange(6).reshape(2, 3).astype(name)
    t = facula.from_dlpack(a)
    assert t.data_ptr() == a.ctypes.data and t.dtype is getattr(facula, name)
    np.testing.assert_array_equal(t.numpy(), a)
    back = np.from_dlpack(t)
    np.testing.assert_array_equal(back, a)
    np.testing.assert_array_equal(np.from_dlpack(t.t()), a.T)


def test_dlpack_capsules():
    t = facula.arange(3.0)
    assert t.__dlpack_device__() == (1, 0)
    plain, versioned = t.__dlpack__(), t.__dlpack__(max_version=(1, 1))
    assert '"dltensor"' in repr(plain) and '"dltensor_versioned"' in repr(versioned)
    assert '"dltensor"' in repr(t.__dlpack__(max_version=(0, 8)))
    for capsule in (plain, versioned):
        made = facula.from_dlpack(capsule)
        assert made.data_ptr() == t.data_ptr() and "used_dltensor" in repr(capsule)
        with pytest.raises(ValueError, match="only once"):
            facula.from_dlpack(capsule)
    copied = facula.from_dlpack(t.__dlpack__(copy=True))
    assert copied.data_ptr() != t.data_ptr() and copied.tolist() == t.tolist()
    assert facula.from_dlpack(t, copy=True).data_ptr() != t.data_ptr()
    assert facula.from_dlpack(t, device="cpu").data_ptr() == t.data_ptr()
    same = dlpack.from_dlpack(dlpack.to_dlpack(t))
    assert same.data_ptr() == t.data_ptr()
    assert facula.from_dlpack(facula.ones(2, dtype=facula.bfloat16)).dtype is facula.bfloat16
    assert facula.from_dlpack(facula.tensor([True])).dtype is facula.bool


def test_dlpack_refusals():
    t = facula.ones(2)
    with pytest.raises(BufferError, match="require gradient"):
        facula.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError):
        facula.empty(2, device="meta").__dlpack__()
    with pytest.raises(BufferError):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        t.__dlpack__(stream="1")
    with pytest.raises(TypeError):
        facula.from_dlpack([1, 2])
    with pytest.raises((RuntimeError, ValueError)):
        facula.from_dlpack(t, device="cuda")


def test_dlpack_memory_is_let_go():
    a = np.arange(100.0)
    watch = weakref.ref(a)
    t = facula.from_dlpack(a)
    del a
    gc.collect()
    assert watch() is not None
    del t
    gc.collect()
    assert watch() is None
    # A capsule that nobody takes frees what it holds.
    a = np.arange(100.0)
    watch = weakref.ref(a)
    capsule = facula.from_numpy(a).__dlpack__(max_version=(1, 0))
    del a
    gc.collect()
    assert watch() is not None
    del capsule
    gc.collect()
    assert watch() is None


def test_importing_does_not_import_numpy():
    import subprocess
    code = ("import sys, facula; facula.tensor([1., 2.]).tolist(); repr(facula.ones(2)); "
            "assert 'numpy' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_warning_for_arrays_as_operands():
    a = np.arange(3.0)
    a.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (facula.ones(3, dtype=facula.float64) + a).tolist() == [1, 2, 3]


@pytest.mark.parametrize("lend", [
    lambda t: t.numpy(), np.asarray, memoryview, np.from_dlpack, lambda t: facula.from_dlpack(t.__dlpack__()),
    lambda t: t[3:].numpy(), lambda t: t[:6].view(2, 3).__dlpack__(),
])
@pytest.mark.parametrize("size", [6, 60_000])
def test_lent_memory_stays_where_it_is(lend, size):
    t = facula.arange(size)
    lent, address = lend(t), t.data_ptr()
    with pytest.raises(ValueError, match="is lent to somebody"):
        facula.add(facula.ones(100_000, dtype=facula.int64), 1, out=t)
    with pytest.raises(ValueError, match="let go of what was lent first, or clone"):
        t.resize_(100_000)
    assert t.shape == (size,) and t.data_ptr() == address and t[-1] == size - 1
    assert t.resize_(2, 3).data_ptr() == address and t.tolist() == [[0, 1, 2], [3, 4, 5]]
    del lent
    gc.collect()
    facula.add(facula.ones(100_000, dtype=facula.int64), 1, out=t)
    assert t.shape == (100_000,) and t.min() == 2


@pytest.mark.parametrize("lend", [lambda t: t.numpy(), memoryview, np.from_dlpack,
                                  lambda t: np.asarray(facula.from_dlpack(t.__dlpack__()))])
def test_lent_memory_outlives_a_change_of_data(lend):
    t = facula.full((50_000,), 3.0)
    lent = np.asarray(lend(t))
    t.data = facula.zeros(2)
    others = [facula.full((50_000,), 7.0) for _ in range(4)]
    assert (lent == 3).all() and len(others) == 4
