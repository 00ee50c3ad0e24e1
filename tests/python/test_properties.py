"""Properties that hold for any input: broadcasting, promotion, views, writing through views, reductions, against NumPy.

Hypothesis draws the inputs from the seed of the run; indexing has its own file.
"""

import pathlib
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from seed import SEED

import facula

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"

DTYPES = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"]
REAL = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8"]


def drawn(examples=60):
    """A test that hypothesis runs with the seed of the run."""

    def decorate(test):
        return seed(SEED)(settings(max_examples=examples, deadline=None, database=None, print_blob=False)(test))

    return decorate


def elements(dtype):
    """Small whole numbers: exact in every dtype, so that results can be compared exactly."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return st.booleans()
    whole = st.integers(0 if kind == "u" else -9, 9)
    return st.builds(complex, whole, whole) if kind == "c" else whole


def arrays(dtypes=DTYPES, shapes=None):
    shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5) if shapes is None else shapes
    return st.sampled_from(dtypes).flatmap(lambda d: hnp.arrays(d, shapes, elements=elements(d)))


def tensor(array):
    return facula.from_numpy(np.array(array))


def assert_same(got, expected, exact=True):
    expected = np.asarray(expected)
    assert tuple(got.shape) == expected.shape
    if exact:
        np.testing.assert_array_equal(got.numpy(), expected)
    else:
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-5)


# Broadcasting.

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "eq": np.equal,
    "lt": np.less,
    "logical_xor": np.logical_xor,
}


@pytest.mark.parametrize("name", BINARY)
@drawn(30)
@given(st.data())
def test_two_operands_broadcast(name, data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=4)).input_shapes
    dtype = data.draw(st.sampled_from(REAL))
    a, b = (data.draw(hnp.arrays(dtype, shape, elements=elements(dtype))) for shape in shapes)
    expected = BINARY[name](a, b)
    assert_same(getattr(facula, name)(tensor(a), tensor(b)), expected)
    assert_same(getattr(tensor(a), name)(tensor(b)), expected)


@drawn()
@given(
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
)
def test_shapes_broadcast_as_numpy_says_or_are_refused(a, b):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(RuntimeError, match="must match"):
            facula.zeros(a) + facula.zeros(b)
        return
    assert tuple((facula.zeros(a) + facula.zeros(b)).shape) == expected


@drawn()
@given(st.data())
def test_where_broadcasts_three_operands(data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, min_side=0, max_side=4)).input_shapes
    condition = data.draw(hnp.arrays("bool", shapes[0]))
    dtype = data.draw(st.sampled_from(DTYPES))
    a, b = (data.draw(hnp.arrays(dtype, shape, elements=elements(dtype))) for shape in shapes[1:])
    assert_same(facula.where(tensor(condition), tensor(a), tensor(b)), np.where(condition, a, b))


@drawn()
@given(st.data())
def test_matmul_broadcasts_batches(data):
    signature = "(n?,k),(k,m?)->(n?,m?)"
    shapes = data.draw(hnp.mutually_broadcastable_shapes(signature=signature, max_dims=3, min_side=1, max_side=4))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int64", "complex128"]))
    a, b = (data.draw(hnp.arrays(dtype, shape, elements=elements(dtype))) for shape in shapes.input_shapes)
    assert_same(tensor(a) @ tensor(b), a @ b)


# Promotion.

NUMBERS = {"bool": True, "int": 2, "float": 1.5, "complex": 1 + 1j}


def operand(kind, dtype):
    if kind == "number":
        return NUMBERS[dtype]
    return facula.ones((2,) if kind == "dim" else (), dtype=getattr(facula, dtype))


def promotion_table():
    lines = (GOLDEN / "promotion.txt").read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def test_promotion_follows_the_stored_table():
    rows = promotion_table()
    assert len(rows) > 700
    wrong = []
    for left_kind, left, right_kind, right, expected in rows:
        a, b = operand(left_kind, left), operand(right_kind, right)
        if not isinstance(a, facula.Tensor) and not isinstance(b, facula.Tensor):
            continue
        ways = {"+": (a + b).dtype, "result_type": facula.result_type(a, b)}
        if isinstance(a, facula.Tensor):
            ways["add"] = facula.add(a, b).dtype
        if left_kind == right_kind == "dim":
            ways["promote_types"] = facula.promote_types(getattr(facula, left), getattr(facula, right))
        wrong += [
            f"{way} of {left_kind} {left} and {right_kind} {right} is {got}, must be {expected}"
            for way, got in ways.items()
            if got is not getattr(facula, expected)
        ]
    assert not wrong, "\n".join(wrong[:10]) + f"\n{len(wrong)} are wrong"


@drawn()
@given(st.sampled_from(promotion_table()), hnp.array_shapes(min_dims=1, max_dims=2, max_side=3))
def test_promotion_does_not_depend_on_the_shape(row, shape):
    left_kind, left, right_kind, right, expected = row
    assume(left_kind == right_kind == "dim")
    a = facula.ones(shape, dtype=getattr(facula, left))
    b = facula.ones(shape, dtype=getattr(facula, right))
    assert (a + b).dtype is getattr(facula, expected)
    assert facula.stack([a, b]).dtype is getattr(facula, expected)


# Views: the same steps on a tensor and on an array.


def view_step(data, array, view):
    """One view of both, drawn at random."""
    kinds = ["unsqueeze", "clone"]
    if array.ndim:
        kinds += ["slice", "permute", "select", "narrow", "movedim", "squeeze"]
    if array.ndim >= 2:
        kinds += ["transpose", "diagonal", "flatten", "mT"]
    kind = data.draw(st.sampled_from(kinds), label="view")
    dims = st.integers(-array.ndim, array.ndim - 1) if array.ndim else st.nothing()
    if kind == "unsqueeze":
        dim = data.draw(st.integers(-array.ndim - 1, array.ndim))
        return np.expand_dims(array, dim), view.unsqueeze(dim)
    if kind == "slice":
        dim = data.draw(st.integers(0, array.ndim - 1))
        start, stop = data.draw(st.integers(-6, 6)), data.draw(st.integers(-6, 6))
        step = data.draw(st.integers(1, 3))
        key = (slice(None),) * dim + (slice(start, stop, step),)
        return array[key], view[key]
    if kind == "permute":
        order = data.draw(st.permutations(range(array.ndim)))
        return array.transpose(order), view.permute(*order)
    if kind == "select":
        dim = data.draw(dims)
        if array.shape[dim] == 0:
            return array, view
        index = data.draw(st.integers(-array.shape[dim], array.shape[dim] - 1))
        # The ellipsis keeps this a view in NumPy even when no dimension is left.
        key = (slice(None),) * (dim % array.ndim) + (index, ...)
        return array[key], view.select(dim, index)
    if kind == "narrow":
        dim = data.draw(dims)
        start = data.draw(st.integers(0, array.shape[dim]))
        length = data.draw(st.integers(0, array.shape[dim] - start))
        key = (slice(None),) * (dim % array.ndim) + (slice(start, start + length),)
        return array[key], view.narrow(dim, start, length)
    if kind == "movedim":
        a, b = data.draw(dims), data.draw(dims)
        return np.moveaxis(array, a, b), view.movedim(a, b)
    if kind == "squeeze":
        return array.squeeze(), view.squeeze()
    if kind == "transpose":
        a, b = data.draw(dims), data.draw(dims)
        return array.swapaxes(a, b), view.transpose(a, b)
    if kind == "diagonal":
        a, b = data.draw(st.permutations(range(array.ndim)))[:2]
        offset = data.draw(st.integers(-2, 2))
        made = array.diagonal(offset, a, b)
        made.flags.writeable = True
        return made, view.diagonal(offset, a, b)
    if kind == "mT":
        return array.swapaxes(-1, -2), view.mT
    if kind == "flatten":
        # A view only where the strides allow it; the array follows.
        flat = view.flatten()
        if flat.data_ptr() != view.data_ptr() or flat.numel() == 0:
            return array, view
        made = array.view()
        try:
            made.shape = (array.size,)
        except AttributeError:
            return array, view
        return made, flat
    return array, view


@drawn(150)
@given(st.data(), arrays(shapes=hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)))
def test_chains_of_views_agree(data, array):
    base = np.array(array)
    shared = tensor(base)
    view, mirrored = shared, base
    for _ in range(data.draw(st.integers(1, 4))):
        mirrored, view = view_step(data, mirrored, view)
    assert_same(view, mirrored)
    strides = [s // mirrored.itemsize for n, s in zip(mirrored.shape, mirrored.strides) if n > 1]
    if mirrored.size:
        assert [s for n, s in zip(view.shape, view.stride()) if n > 1] == strides


WRITES = {
    "fill": (lambda a: a.__setitem__(Ellipsis, 5), lambda t: t.fill_(5)),
    "zero": (lambda a: a.__setitem__(Ellipsis, 0), lambda t: t.zero_()),
    "add": (lambda a: np.add(a, 3, out=a), lambda t: t.add_(3)),
    "iadd": (lambda a: np.add(a, 2, out=a), lambda t: t.__iadd__(2)),
    "mul": (lambda a: np.multiply(a, 2, out=a), lambda t: t.mul_(2)),
    "neg": (lambda a: np.negative(a, out=a), lambda t: t.neg_()),
    "double": (lambda a: np.add(a, a, out=a), lambda t: t.add_(t)),
    "copy": (lambda a: a.__setitem__(Ellipsis, a[...] * 0 + 7), lambda t: t.copy_(t * 0 + 7)),
}


@drawn(150)
@given(
    st.data(),
    arrays(["float32", "float64", "int64", "int16"], hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)),
    st.lists(st.sampled_from(sorted(WRITES)), min_size=1, max_size=3),
)
def test_writing_through_views_reaches_the_base(data, array, writes):
    base = np.array(array)
    shared = tensor(base)
    version = shared._version
    view, mirrored = shared, base
    for _ in range(data.draw(st.integers(0, 3))):
        mirrored, view = view_step(data, mirrored, view)
    for name in writes:
        mirrored_write, write = WRITES[name]
        if isinstance(mirrored, np.ndarray) and np.shares_memory(mirrored, base):
            mirrored_write(mirrored)
        elif mirrored.size:
            return  # NumPy gave a number instead of a view of one
        assert write(view) is view
    assert_same(shared, base)
    assert shared._version >= version + len(writes)


@drawn()
@given(st.data(), arrays(["float32", "int64"], hnp.array_shapes(min_dims=1, max_dims=1, min_side=2, max_side=40)))
def test_overlapping_copies_are_right_or_refused(data, array):
    """Source and destination share memory: the result is as if the source had been copied first, or an error."""
    n = array.size
    length = data.draw(st.integers(1, n - 1))
    a, b = data.draw(st.integers(0, n - length)), data.draw(st.integers(0, n - length))
    expected = array.copy()
    expected[a : a + length] = array[b : b + length].copy()
    t = tensor(array)
    try:
        t[a : a + length].copy_(t[b : b + length])
    except RuntimeError:
        expected = array
    assert_same(t, expected)


@drawn()
@given(arrays(REAL, hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)))
def test_expanded_tensors_refuse_to_be_written(array):
    t = tensor(array)
    wide = t.unsqueeze(0).expand(3, *t.shape)
    assert_same(wide, np.broadcast_to(array, (3, *array.shape)))
    with pytest.raises(RuntimeError):
        wide.add_(1)
    assert_same(t, array)


# Reductions.


def some_dims(data, array):
    if not array.ndim:
        return []
    dims = data.draw(st.lists(st.integers(0, array.ndim - 1), unique=True, min_size=1, max_size=array.ndim))
    return [d - array.ndim if data.draw(st.booleans()) else d for d in dims]


SEVERAL = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min}


@pytest.mark.parametrize("name", SEVERAL)
@drawn(50)
@given(st.data())
def test_reductions_over_several_dims(name, data):
    side = 1 if name.startswith("a") else 0
    shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=side, max_side=4)
    array = data.draw(arrays(["float32", "float64"] if name == "mean" else REAL, shapes))
    dims, keepdim = some_dims(data, array), data.draw(st.booleans())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mean of nothing
        expected = SEVERAL[name](array, axis=tuple(dims), keepdims=keepdim)
    t = tensor(array)
    assert_same(getattr(facula, name)(t, dims, keepdim), expected, exact=name != "mean")
    assert_same(getattr(t, name)(dim=tuple(dims), keepdim=keepdim), expected, exact=name != "mean")
    if keepdim:
        assert_same(getattr(t, name)(axis=dims, keepdims=True), expected, exact=name != "mean")


SINGLE = {"prod": np.prod, "all": np.all, "any": np.any, "cumsum": np.cumsum, "cumprod": np.cumprod}


@pytest.mark.parametrize("name", SINGLE)
@drawn(30)
@given(st.data())
def test_reductions_and_scans_along_one_dim(name, data):
    shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)
    array = data.draw(arrays(["float64", "int64", "int16", "bool"], shapes))
    dim = data.draw(st.integers(-array.ndim, array.ndim - 1))
    t = tensor(array)
    expected = SINGLE[name](array, axis=dim)
    assert_same(getattr(facula, name)(t, dim), expected)
    assert_same(getattr(t, name)(dim=dim), expected)


@drawn()
@given(st.data(), st.sampled_from(["argmax", "argmin", "max", "min"]))
def test_extrema_and_where_they_are(data, name):
    shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)
    array = data.draw(arrays(REAL, shapes))
    dim, keepdim = data.draw(st.integers(-array.ndim, array.ndim - 1)), data.draw(st.booleans())
    t = tensor(array)
    if name.startswith("arg"):
        at = getattr(facula, name)(t, dim, keepdim=True).numpy()
    else:
        values, indices = getattr(facula, name)(t, dim, keepdim)
        best = (np.max if name == "max" else np.min)(array, axis=dim, keepdims=keepdim)
        assert_same(values, best)
        at = indices.numpy() if keepdim else np.expand_dims(indices.numpy(), dim)
    best = (np.max if name.endswith("max") else np.min)(array, axis=dim, keepdims=True)
    np.testing.assert_array_equal(np.take_along_axis(array, at, dim), best)


@drawn()
@given(st.data())
def test_variance(data):
    array = data.draw(arrays(["float64"], hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=5)))
    dims, correction = some_dims(data, array), data.draw(st.sampled_from([0, 1]))
    t = tensor(array)
    expected = np.var(array, axis=tuple(dims), ddof=correction)
    assert_same(facula.var(t, dims, correction=correction), expected, exact=False)
    assert_same(facula.std(t, dims, correction=correction), np.sqrt(expected), exact=False)


# Sorting, joining, taking apart.


@drawn()
@given(st.data(), st.booleans())
def test_sorting_is_stable_and_a_permutation(data, descending):
    array = data.draw(arrays(REAL, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=7)))
    dim = data.draw(st.integers(-array.ndim, array.ndim - 1))
    values, indices = facula.sort(tensor(array), dim=dim, descending=descending, stable=True)
    order = np.argsort(array, axis=dim, kind="stable")
    if descending:
        flipped = np.argsort(np.flip(array, dim), axis=dim, kind="stable")
        order = np.flip(array.shape[dim] - 1 - flipped, dim)
    assert_same(indices, order)
    assert_same(values, np.take_along_axis(array, order, dim))


@drawn()
@given(st.data())
def test_parts_joined_again_are_the_whole(data):
    array = data.draw(arrays(shapes=hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6)))
    dim = data.draw(st.integers(-array.ndim, array.ndim - 1))
    size = data.draw(st.integers(1, 7))
    t = tensor(array)
    for parts in (t.split(size, dim), t.chunk(size, dim), facula.tensor_split(t, size, dim)):
        assert_same(facula.cat(list(parts), dim), array)
    assert_same(facula.stack(t.unbind(dim), dim), array)


@drawn()
@given(st.data(), arrays(shapes=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)))
def test_reshapes_and_rearrangements(data, array):
    t = tensor(array)
    assert_same(t.reshape(-1) if array.size else t.reshape(array.size), array.reshape(array.size))
    dims = some_dims(data, array)
    if dims:
        assert_same(t.flip(dims), np.flip(array, tuple(dims)))
        shifts = [data.draw(st.integers(-5, 5)) for _ in dims]
        assert_same(t.roll(shifts, dims), np.roll(array, shifts, dims))
    repeats = data.draw(st.lists(st.integers(0, 2), min_size=array.ndim, max_size=array.ndim + 1))
    if repeats:
        assert_same(t.tile(repeats), np.tile(array, repeats))
