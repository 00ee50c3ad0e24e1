"""facula.tensor and its relatives: dtypes, sizes, errors; and tolist, the way back."""
import array
import warnings

import numpy as np
import pytest

import facula


@pytest.mark.parametrize("data, dtype", [
    (True, facula.bool), (3, facula.int64), (2.5, facula.float32), (1 + 2j, facula.complex64),
    ([True, False], facula.bool), ([True, 2], facula.int64), ([1, 2.5], facula.float32),
    ([1, 2.5, 1j], facula.complex64), ([], facula.float32), ([[], []], facula.float32), (np.float64(1), facula.float64),
    (np.int16(1), facula.int16),
    (np.bool_(True), facula.bool), ([np.float32(1), np.float64(2)], facula.float64), ((1, (2,))[1], facula.int64),
    (np.array([1], dtype=np.uint8), facula.uint8), ([np.array([1, 2], dtype=np.int32)], facula.int32),
    (range(3), facula.int64), (array.array("d", [1.0]), facula.float32), (np.complex64(1j), facula.complex64),
])
def test_dtypes(data, dtype):
    assert facula.tensor(data).dtype is dtype


def test_default_dtype():
    before = facula.get_default_dtype()
    try:
        facula.set_default_dtype(facula.float64)
        assert facula.tensor(1.0).dtype is facula.float64
        assert facula.tensor(1j).dtype is facula.complex128
        assert facula.tensor([]).dtype is facula.float64
    finally:
        facula.set_default_dtype(before)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (1, 1, 1, 1), (2, 3, 4)])
@pytest.mark.parametrize("name", ["float64", "float32", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                  "uint32", "uint64", "bool", "complex64", "complex128"])
def test_lists_there_and_back(shape, name):
    values = np.random.default_rng(5).integers(0, 100, shape).astype(name)
    if values.dtype.kind == "c":
        values = values * (1 + 2j)
    made = facula.tensor(values.tolist(), dtype=getattr(facula, name))
    # A list cannot say what lies behind an empty dim.
    assert values.size == 0 or tuple(made.shape) == shape
    assert made.tolist() == values.tolist()
    assert [type(x) for x in made.reshape(-1).tolist()] == [type(x) for x in values.reshape(-1).tolist()]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "complex32"])
def test_dtypes_without_numpy(name):
    values = [0.5, -2.0, 4.0]
    made = facula.tensor(values, dtype=getattr(facula, name))
    assert made.tolist() == values


def test_tolist_of_views():
    x = facula.arange(12).reshape(3, 4)
    a = np.arange(12).reshape(3, 4)
    assert x.t().tolist() == a.T.tolist()
    assert x[1:, ::2].tolist() == a[1:, ::2].tolist()
    assert facula.tensor(5).expand(2, 2).tolist() == [[5, 5], [5, 5]]
    assert facula.tensor(2**64 - 1, dtype=facula.uint64).tolist() == 2**64 - 1
    assert facula.ones(2, requires_grad=True).tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match="no data"):
        facula.empty(2, device="meta").tolist()


def test_nested_tensors_and_arrays():
    rows = [facula.tensor([1.0, 2.0]), np.array([3.0, 4.0], dtype=np.float32), [5, 6], (7.0, facula.tensor(8))]
    made = facula.tensor(rows)
    assert made.dtype is facula.float32 and made.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert facula.tensor([facula.tensor(1), 2.5]).tolist() == [1, 2.5]
    flipped = np.arange(4)[::-1]
    assert facula.tensor([flipped, flipped]).tolist() == [[3, 2, 1, 0]] * 2
    with pytest.raises(ValueError, match="expected sequence of sizes"):
        facula.tensor([np.ones((2, 2)), np.ones((2, 3))])


def test_copies():
    a = np.arange(3.0)
    made = facula.tensor(a)
    a[0] = 9
    assert made.tolist() == [0, 1, 2] and made.dtype is facula.float64
    assert facula.tensor(np.arange(3)[::-1]).tolist() == [2, 1, 0]
    source = facula.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="copy construct"):
        made = facula.tensor(source)
    assert not made.requires_grad and made.data_ptr() != source.data_ptr()


def test_options():
    made = facula.tensor([1, 2], dtype=facula.float64, device="cpu", requires_grad=True, pin_memory=False)
    assert made.dtype is facula.float64 and made.requires_grad and made.is_leaf
    assert facula.tensor([1, 2], dtype=float).dtype is facula.float64
    made = facula.tensor([[1, 2]], device="meta")
    assert made.is_meta and tuple(made.shape) == (1, 2)
    assert facula.tensor([1.7, -1.7], dtype=facula.int64).tolist() == [1, -1]
    assert facula.tensor([0, 0.5, float("nan")], dtype=facula.bool).tolist() == [False, True, True]
    assert facula.tensor([1e300]).tolist() == [float("inf")]
    with pytest.raises(TypeError):
        facula.tensor([1], facula.float32)
    with pytest.raises(RuntimeError):
        facula.tensor([1, 2], requires_grad=True)


def test_ragged():
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 1\)"):
        facula.tensor([[1, 2], [3]])
    with pytest.raises(ValueError, match=r"expected sequence of length 0 at dim 1 \(got 1\)"):
        facula.tensor([[], [3]])
    with pytest.raises(ValueError, match=r"expected sequence of length 1 at dim 2 \(got 2\)"):
        facula.tensor([[[1]], [[1, 2]]])
    with pytest.raises(TypeError, match="not a sequence"):
        facula.tensor([[1, 2], 3])
    with pytest.raises(TypeError):
        facula.tensor([1, [2, 3]])


def test_wrong_data():
    with pytest.raises(TypeError, match="invalid data type 'str'"):
        facula.tensor("abc")
    with pytest.raises(TypeError):
        facula.tensor("abc", dtype=facula.bool)
    with pytest.raises(TypeError, match="Could not infer dtype of NoneType"):
        facula.tensor(None)
    with pytest.raises(TypeError, match="Could not infer dtype of dict"):
        facula.tensor({})
    with pytest.raises(RuntimeError):
        facula.tensor(2**63)
    with pytest.raises(RuntimeError, match="without overflow"):
        facula.tensor([300], dtype=facula.uint8)
    with pytest.raises(RuntimeError, match="without overflow"):
        facula.tensor([-1], dtype=facula.uint8)
    with pytest.raises(TypeError, match="complex"):
        facula.tensor([1j], dtype=facula.float32)
    with pytest.raises(TypeError):
        facula.tensor(np.array(["a"]))
    with pytest.raises(TypeError, match="datetime64"):
        facula.tensor(np.array(["2020-01-01"], dtype="datetime64[D]"))


def test_deep_nesting():
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too many dimensions"):
        facula.tensor(endless)
    with pytest.raises(ValueError, match="too many dimensions"):
        facula.tensor([1, endless])
    deep = 1
    for _ in range(64):
        deep = [deep]
    assert facula.tensor(deep).dim() == 64
    with pytest.raises(ValueError, match="too many dimensions"):
        facula.tensor([deep])


def test_a_list_that_changes():
    class Nasty:
        def __index__(self):
            data.clear()
            return 1

    data = [1, Nasty(), 3, 4]
    with pytest.raises(ValueError, match="changed"):
        facula.tensor(data)


def test_as_tensor():
    a = np.arange(3.0)
    shared = facula.as_tensor(a)
    shared[0] = 5
    assert a[0] == 5
    assert facula.as_tensor(shared) is shared
    assert facula.as_tensor(a, dtype=facula.float32).dtype is facula.float32
    assert facula.as_tensor([1, 2]).dtype is facula.int64
    x = facula.ones(2, requires_grad=True)
    assert facula.as_tensor(x) is x
    assert facula.as_tensor(x, dtype=facula.float64).requires_grad


def test_asarray():
    a = np.arange(3.0)
    assert facula.asarray(a).data_ptr() == a.ctypes.data
    assert facula.asarray(a, copy=True).data_ptr() != a.ctypes.data
    assert facula.asarray(a, dtype=facula.int64).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="can't alias"):
        facula.asarray(a, dtype=facula.int64, copy=False)
    with pytest.raises(ValueError, match="can't alias"):
        facula.asarray([1, 2], copy=False)
    buffer = bytearray(np.arange(4, dtype=np.int16).tobytes())
    assert facula.asarray(buffer, dtype=facula.int16).tolist() == [0, 1, 2, 3]
    x = facula.ones(2, requires_grad=True)
    assert not facula.asarray(x).requires_grad
    assert facula.asarray([1.0], requires_grad=True).requires_grad
    assert facula.asarray(np.float32(3)).tolist() == 3
    assert facula.asarray(5).dtype is facula.int64
    t = facula.ones(2)
    assert facula.asarray(t) is t


def test_new_tensor():
    like = facula.ones(2, dtype=facula.float64)
    made = like.new_tensor([[1, 2], [3, 4]])
    assert made.dtype is facula.float64 and tuple(made.shape) == (2, 2)
    assert like.new_tensor([1], dtype=facula.int32, requires_grad=False).dtype is facula.int32
    with pytest.warns(UserWarning):
        like.new_tensor(like)
    with pytest.raises(TypeError):
        like.new_tensor()


def test_warnings_are_none_for_plain_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        readonly = np.arange(3)
        readonly.flags.writeable = False
        facula.tensor(readonly)
        facula.asarray(readonly, copy=True)
        facula.zeros(3)[readonly]
