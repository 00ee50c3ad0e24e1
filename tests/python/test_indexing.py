"""x[...] and x[...] = value against NumPy, and the errors of both."""
import copy

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import facula


def numbered(shape, dtype=facula.float32):
    count = int(np.prod(shape))
    array = np.arange(count, dtype=np.float32).reshape(shape)
    return facula.arange(count, dtype=dtype).reshape(shape), array


shapes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


@st.composite
def basic_parts(draw, shape):
    """A tuple of integers, slices, None and at most one ellipsis that fits the shape."""
    dims = draw(st.integers(0, len(shape)))
    from_the_end = draw(st.booleans())
    parts = []
    for i in range(dims):
        size = shape[len(shape) - dims + i] if from_the_end else shape[i]
        bounds = st.one_of(st.none(), st.integers(-6, 6))
        part = slice(draw(bounds), draw(bounds), draw(st.one_of(st.none(), st.integers(1, 3))))
        if size > 0 and draw(st.booleans()):
            part = draw(st.integers(-size, size - 1))
        parts.append(part)
    if from_the_end:
        parts.insert(0, Ellipsis)
    elif draw(st.booleans()):
        parts.append(Ellipsis)
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return tuple(parts)


@st.composite
def array_parts(draw, shape):
    """Arrays, lists and masks among slices. Integers are left out: NumPy counts them as arrays, PyTorch does not."""
    parts, dim = [], 0
    width = draw(st.integers(1, 3))
    while dim < len(shape):
        kind = draw(st.sampled_from(["slice", "array", "column", "list", "mask", "none"]))
        size = shape[dim]
        if kind == "none":
            if len(parts) < 6:
                parts.append(None)
            continue
        if kind in ("array", "list", "column") and size > 0:
            values = draw(st.lists(st.integers(-size, size - 1), min_size=width, max_size=width))
            if kind == "column":
                parts.append(np.array(values).reshape(-1, 1))
            else:
                parts.append(np.array(values) if kind == "array" else values)
        elif kind == "mask" and not any(isinstance(p, (np.ndarray, list)) for p in parts):
            span = draw(st.integers(1, min(2, len(shape) - dim)))
            bits = draw(st.lists(st.booleans(), min_size=int(np.prod(shape[dim:dim + span])),
                                 max_size=int(np.prod(shape[dim:dim + span]))))
            parts.append(np.array(bits, dtype=bool).reshape(shape[dim:dim + span]))
            dim += span
            parts.extend(slice(None) for _ in shape[dim:])
            break
        else:
            parts.append(slice(draw(st.one_of(st.none(), st.integers(-3, 3))), None))
        dim += 1
    return tuple(parts)


def as_tensors(index):
    return tuple(facula.tensor(p) if isinstance(p, np.ndarray) else p for p in index)


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_basic_get_and_set(data):
    shape = data.draw(shapes)
    index = data.draw(basic_parts(shape))
    tensor, array = numbered(shape)
    got, expected = tensor[index], array[index]
    assert tuple(got.shape) == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)
    if got.numel():
        assert got._is_view() or not index
    value = np.random.default_rng(3).standard_normal(expected.shape).astype(np.float32)
    array[index] = value
    tensor[index] = facula.tensor(value)
    np.testing.assert_array_equal(tensor.numpy(), array)
    array[index] = -1
    tensor[index] = -1
    np.testing.assert_array_equal(tensor.numpy(), array)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_arrays_and_masks(data):
    shape = data.draw(shapes.filter(lambda s: len(s) > 0))
    index = data.draw(array_parts(shape))
    tensor, array = numbered(shape)
    expected = array[index]
    for form in (index, as_tensors(index)):
        got = tensor[form]
        assert tuple(got.shape) == expected.shape
        np.testing.assert_array_equal(got.numpy(), expected)
        changed, wanted = tensor.clone(), array.copy()
        changed[form] = 7.5
        wanted[index] = 7.5
        np.testing.assert_array_equal(changed.numpy(), wanted)


def test_integers_of_every_kind():
    x, a = numbered((3, 4))
    for one in (1, np.int64(1), np.int8(1), facula.tensor(1), facula.tensor(1, dtype=facula.int32), np.array(1)):
        np.testing.assert_array_equal(x[one].numpy(), a[1])
        np.testing.assert_array_equal(x[one, 2].numpy(), a[1, 2])
    assert x[-1, -1].item() == 11
    assert x[1][2].item() == 6


def test_bools_add_a_dim():
    x, a = numbered((2, 3))
    for yes in (True, np.True_, facula.tensor(True)):
        assert tuple(x[yes].shape) == (1, 2, 3)
    assert tuple(x[False].shape) == (0, 2, 3)
    assert tuple(x[None, True].shape) == a[None, True].shape


def test_sequences():
    x, a = numbered((4, 3))
    np.testing.assert_array_equal(x[range(1, 3)].numpy(), a[1:3])
    np.testing.assert_array_equal(x[[0, 2]].numpy(), a[[0, 2]])
    np.testing.assert_array_equal(x[[[0, 2], [1, 3]]].numpy(), a[[[0, 2], [1, 3]]])
    np.testing.assert_array_equal(x[[True, False, True, False]].numpy(), a[[0, 2]])
    np.testing.assert_array_equal(x[(0, 2), (1, 1)].numpy(), a[(0, 2), (1, 1)])
    assert tuple(x[[]].shape) == (0, 3)
    np.testing.assert_array_equal(x[[facula.tensor(0), facula.tensor(3)]].numpy(), a[[0, 3]])


def test_a_slice_takes_tensors():
    x, a = numbered((6,))
    np.testing.assert_array_equal(x[facula.tensor(1):facula.tensor(5):np.int64(2)].numpy(), a[1:5:2])
    assert len(x[10**30:]) == 0


def test_values_of_every_kind():
    x = facula.zeros(2, 3)
    x[0] = [1, 2, 3]
    x[1] = np.array([4.0, 5.0, 6.0])
    np.testing.assert_array_equal(x.numpy(), [[1, 2, 3], [4, 5, 6]])
    x[:, 0] = np.float32(9)
    x[0, 1:] = facula.tensor([[7, 8]])  # leading dims of size 1 do not count
    np.testing.assert_array_equal(x.numpy(), [[9, 7, 8], [9, 5, 6]])
    x[...] = True
    assert x.sum().item() == 6
    x[[0, 1], [1, 2]] = facula.tensor([10.0, 20.0], dtype=facula.float64)
    assert x[0, 1].item() == 10 and x[1, 2].item() == 20
    whole = facula.zeros(3, dtype=facula.int64)
    whole[1] = 2
    whole[facula.tensor([True, False, False])] = 5
    assert whole.tolist() == [5, 2, 0]
    with pytest.raises(TypeError, match="can't assign a"):
        x[0] = object()
    with pytest.raises(TypeError, match="can't assign a str"):
        x[0] = "a"


def test_gradients_flow():
    x = facula.ones(3, 3, requires_grad=True)
    (x[0, 1:] * 2).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 2, 2], [0, 0, 0], [0, 0, 0]])
    index = np.array([1, 1])
    y = x[index].sum()
    index[:] = 0  # what the tape keeps is its own
    x.grad = None
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0, 0], [2, 2, 2], [0, 0, 0]])
    z = x * 1
    z[1] = 0
    x.grad = None
    z.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[1, 1, 1], [0, 0, 0], [1, 1, 1]])


def test_errors():
    x = facula.zeros(2, 3)
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        x[2]
    with pytest.raises(IndexError, match="index -4 is out of bounds for dimension 1 with size 3"):
        x[:, -4]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        x[0, 0, 0]
    with pytest.raises(IndexError, match="0-dim tensor"):
        facula.tensor(1.0)[0]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-1]
    with pytest.raises(ValueError):
        x[::0]
    with pytest.raises(IndexError, match="single ellipsis"):
        x[..., ...]
    with pytest.raises(IndexError):
        x[10**30]
    for wrong in (1.0, "a", b"a", {0}, [1.5], facula.tensor([1.5])):
        with pytest.raises(IndexError):
            x[wrong]
    with pytest.raises(IndexError):
        x[facula.tensor([True, False, True])]
    with pytest.raises(TypeError, match="deleting"):
        del x[0]
    with pytest.raises((ValueError, RuntimeError)):
        x[0] = facula.ones(4)
    with pytest.raises(ValueError, match="expected sequence of length"):
        x[:] = [[1, 2, 3], [1, 2]]


def test_length_and_iteration():
    x, a = numbered((3, 2))
    assert len(x) == 3
    rows = list(x)
    assert len(rows) == 3
    for row, expected in zip(rows, a):
        np.testing.assert_array_equal(row.numpy(), expected)
    first, _, last = x
    assert last[1].item() == 5 and first[0].item() == 0
    assert [float(v) for v in facula.tensor([1.0, 2.0])] == [1, 2]
    assert list(facula.zeros(0, 2)) == []
    rows[0].fill_(9)  # rows are views
    assert x[0, 0].item() == 9
    np.testing.assert_array_equal(facula.stack(list(reversed(x))).numpy()[0], a[2])
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(facula.tensor(1))
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(facula.tensor(1))


def test_contains():
    x = facula.tensor([1.0, 2.5])
    assert 2.5 in x and 3 not in x and facula.tensor(1.0) in x
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        "a" in x


def test_identity_of_results():
    x, _ = numbered((2,))
    assert x[...] is not x and x[()] is not x
    assert x[:].data_ptr() == x.data_ptr()
    assert copy.copy(x).data_ptr() == x.data_ptr()
