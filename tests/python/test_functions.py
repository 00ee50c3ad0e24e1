"""Functions written in Python on top of the ops: values against NumPy and SciPy, slopes against finite differences."""
import inspect
import math
import pickle

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula.autograd import gradcheck
from seed import SEED

special = pytest.importorskip("scipy.special")
signal_windows = pytest.importorskip("scipy.signal.windows")


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


def t(array, **keywords):
    return facula.tensor(np.asarray(array), **keywords)


def close(got, want, tolerance=1e-10):
    got = got.detach().numpy()
    assert got.shape == np.shape(want), (got.shape, np.shape(want))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_stacking_and_splitting(rng):
    a, b = rng.normal(size=4), rng.normal(size=(4, 2))
    close(facula.column_stack((t(a), t(b))), np.column_stack((a, b)))
    out = facula.empty(0, dtype=facula.float64)
    assert facula.column_stack([t(a), t(a)], out=out) is out and out.shape == (4, 2)
    x = rng.normal(size=(4, 6, 2))
    for name in ("hsplit", "vsplit", "dsplit"):
        for parts in (2, [1, 2]):
            for got, want in zip(getattr(facula, name)(t(x), parts), getattr(np, name)(x, parts)):
                close(got, want)
            assert len(getattr(t(x), name)(parts)) == len(getattr(np, name)(x, parts))
    assert [p.tolist() for p in facula.arange(4).hsplit(2)] == [[0, 1], [2, 3]]
    with pytest.raises(RuntimeError, match="not divisible"):
        t(x).vsplit(3)
    with pytest.raises(RuntimeError, match="at least 3"):
        facula.ones(2, 2).dsplit(2)
    with pytest.raises(TypeError, match="tensors.*not Tensor"):
        facula.column_stack(t(a))


def test_diagonals_and_scatter(rng):
    x = rng.normal(size=(2, 2))
    close(facula.diagflat(t(x), 1), np.diagflat(x, 1))
    close(t(x).diagflat(), np.diagflat(x))
    x = rng.normal(size=(3, 4))
    want = x.copy()
    want[:, 2] = 7
    close(t(x).select_scatter(facula.full((3,), 7.0, dtype=facula.float64), 1, 2), want)
    want = x.copy()
    want[:, 1:4:2] = 7
    close(facula.slice_scatter(t(x), facula.full((3, 2), 7.0, dtype=facula.float64), 1, 1, 4, 2), want)
    want = x.copy()
    np.fill_diagonal(want, 7)
    close(t(x).diagonal_scatter(facula.full((3,), 7.0, dtype=facula.float64)), want)
    with pytest.raises(RuntimeError, match="slice size"):
        t(x).select_scatter(facula.ones(4), 1, 2)
    a, b = t(x, requires_grad=True), t(rng.normal(size=3), requires_grad=True)
    assert gradcheck(lambda a, b: facula.select_scatter(a, b, 1, -1), (a, b))
    for shape, wrap in (((3, 4), False), ((9, 3), True), ((9, 3), False), ((8, 2), True), ((3, 3, 3), False)):
        want, got = np.zeros(shape), facula.zeros(shape)
        np.fill_diagonal(want, 5, wrap=wrap)
        assert got.fill_diagonal_(5, wrap) is got
        close(got, want)
    part = facula.arange(6).narrow_copy(0, 1, 3)
    assert part.tolist() == [1, 2, 3] and not part._is_view()


def test_sum_to_size_and_unravel(rng):
    x = rng.normal(size=(2, 3, 4))
    close(t(x).sum_to_size(3, 1), x.sum((0, 2))[:, None])
    close(t(x).sum_to_size((2, 3, 4)), x)
    close(t(x).sum_to_size(()), x.sum())
    with pytest.raises(RuntimeError, match="not expandable"):
        t(x).sum_to_size(2, 4)
    flat = rng.integers(0, 60, size=(2, 5))
    for got, want in zip(facula.unravel_index(t(flat), (3, 4, 5)), np.unravel_index(flat, (3, 4, 5))):
        assert got.tolist() == want.tolist()
    with pytest.raises(TypeError):
        facula.unravel_index(facula.ones(2), (2, 2))


def test_powers_and_products(rng):
    x, y = rng.uniform(0.5, 2, size=5), rng.integers(-3, 4, size=5)
    got = facula.float_power(t(x).float(), t(y))
    assert got.dtype is facula.float64
    close(got, np.float_power(x.astype("f4"), y))
    close(facula.float_power(2, t(y)), np.float_power(2, y))
    close(t(x).float_power_(2), x ** 2)
    with pytest.raises(RuntimeError, match="requires dtype"):
        facula.ones(2).float_power_(2)
    close(t(x).ldexp(t(y)), np.ldexp(x, y), 1e-6)
    close(facula.dist(t(x), t(x[::-1].copy()), 3), (np.abs(x - x[::-1]) ** 3).sum() ** (1 / 3))
    u, v, m = rng.normal(size=3), rng.normal(size=4), rng.normal(size=(3, 4))
    close(facula.addr(t(m), t(u), t(v), beta=2, alpha=0.5), 2 * m + 0.5 * np.outer(u, v))
    close(facula.addr(t(np.full((3, 4), np.nan)), t(u), t(v), beta=0), np.outer(u, v))
    close(t(m).addr_(t(u), t(v)), m + np.outer(u, v))
    p, q = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 5, 4))
    close(t(m).addbmm(t(p), t(q), beta=3, alpha=2), 3 * m + 2 * (p @ q).sum(0))
    close(facula.mvlgamma(t(x + 2), 3), [special.multigammaln(a + 2, 3) for a in x])
    close(facula.special.multigammaln(t(x + 2), 2), [special.multigammaln(a + 2, 2) for a in x])
    for n in (None, 0, 1, 3, 7):
        for increasing in (False, True):
            close(facula.vander(t(x), n, increasing), np.vander(x, n, increasing))
            assert facula.vander(t(y), n, increasing).tolist() == np.vander(y, n, increasing).tolist()
    close(facula.linalg.vander(t(x), N=3), np.vander(x, 3, True))
    s = rng.normal(size=(2, 3, 3))
    for n in (0, 1, 2, 5):
        close(t(s).matrix_power(n), np.linalg.matrix_power(s, n))
        close(facula.linalg.matrix_power(t(s), n), np.linalg.matrix_power(s, n))
    with pytest.raises(NotImplementedError, match="inverse"):
        facula.matrix_power(t(s), -1)
    a, b, c = rng.normal(size=(2, 5)), rng.normal(size=(5, 3)), rng.normal(size=(3, 4))
    close(facula.chain_matmul(t(a), t(b), t(c)), a @ b @ c)
    z = a + 1j
    assert np.array_equal(facula.adjoint(t(z)).numpy(), z.conj().T)


@pytest.mark.parametrize("use_gelu", [False, True])
def test_product_with_activation(rng, use_gelu):
    x, a, b = (rng.standard_normal(size) for size in ((4,), (3, 5), (5, 4)))
    total = 0.5 * x - 2 * a @ b
    gelu = total * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total**3))) / 2
    want = gelu if use_gelu else np.maximum(total, 0)
    factors = {"beta": 0.5, "alpha": -2, "use_gelu": use_gelu}
    close(facula._addmm_activation(t(x), t(a), t(b), **factors), want)
    close(t(x)._addmm_activation(t(a), t(b), **factors), want)
    out = facula.empty(3, 4, dtype=facula.float64)
    assert facula._addmm_activation(t(x), t(a), t(b), **factors, out=out) is out
    close(out, want)
    leaves = [t(v, requires_grad=True) for v in (x, a, b)]
    assert gradcheck(lambda *v: facula._addmm_activation(*v, **factors), leaves)
    apart = facula.func.vmap(lambda row: facula._addmm_activation(t(x), row, t(b), **factors))(t(np.stack([a, -a])))
    close(apart[0], want)


def test_covariance(rng):
    x, f, a = rng.normal(size=(3, 8)), rng.integers(1, 4, size=8), rng.uniform(size=8)
    close(facula.cov(t(x)), np.cov(x))
    close(t(x).cov(correction=0), np.cov(x, ddof=0))
    close(facula.cov(t(x), fweights=t(f), aweights=t(a)), np.cov(x, fweights=f, aweights=a))
    close(facula.cov(t(x[0]), aweights=t(a)), np.cov(x[0], aweights=a))
    z = x + 1j * rng.normal(size=(3, 8))
    close(facula.cov(t(z)), np.cov(z))
    close(facula.corrcoef(t(x)), np.corrcoef(x))
    close(t(z).corrcoef(), np.corrcoef(z))
    close(facula.cov(t(f)), np.cov(f), 1e-5)
    with pytest.raises(RuntimeError, match="integral"):
        facula.cov(t(x), fweights=t(a))
    assert gradcheck(facula.cov, (t(x, requires_grad=True),))


METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


@pytest.mark.parametrize("method", METHODS)
def test_quantiles(rng, method):
    x, q = rng.normal(size=(3, 7, 2)), rng.uniform(size=4)
    for dim in (None, 0, 1, -1):
        for keep in (False, True):
            want = np.quantile(x, q, axis=dim, keepdims=keep, method=method)
            close(facula.quantile(t(x), t(q), dim, keep, interpolation=method), want)
    close(t(x).quantile(0.3, 1, interpolation=method), np.quantile(x, 0.3, axis=1, method=method))
    holes = np.where(rng.uniform(size=x.shape) < 0.3, np.nan, x)
    holes[0, 0, 0] = 1
    filled = np.where(np.isnan(holes).all(1, keepdims=True), 0, holes)
    got = facula.nanquantile(t(filled), t(q), 1, interpolation=method)
    want = np.nanquantile(filled, q, axis=1, method=method)
    close(got, want)
    assert math.isnan(t(holes).quantile(0.5).item()) == np.isnan(holes).any()


def test_statistics_of_what_has_no_entries_or_no_such_dim():
    nothing = facula.tensor([], dtype=facula.int64)
    assert facula.nanmedian(nothing).dtype is facula.int64
    assert math.isnan(facula.nanmedian(facula.tensor([])).item())
    with pytest.raises(IndexError, match="nanmedian.*non-zero size"):
        facula.nanmedian(facula.zeros(0, 3), dim=0)
    number = facula.tensor(1.5)
    assert facula.mode(number).values.item() == 1.5 and facula.mode(number, 0).indices.item() == 0
    with pytest.raises(IndexError, match=r"mode.*\[-1, 0\], but got 5"):
        facula.mode(number, 5)
    with pytest.raises(TypeError, match="mode.*dim must be an int"):
        facula.mode(facula.ones(2, 3), (0, 1))


@pytest.mark.parametrize("op, call", [("rand", facula.rand), ("randn", facula.randn),
                                      ("randint", lambda *size: facula.randint(0, 5, size))])
def test_random_ops_name_themselves_where_sizes_are_wrong(op, call):
    with pytest.raises(facula.ShapeError, match=f"^{op}: .*overflows 64 bits"):
        call(2 ** 62, 32)
    with pytest.raises(facula.ShapeError, match=f"^{op}: .*negative dimension -1"):
        call(2, -1)


def test_quantile_edges(rng):
    assert facula.tensor([1.0, math.inf, math.inf]).quantile(0.5).item() == math.inf
    assert math.isnan(facula.tensor([math.nan]).nanquantile(0.5).item())
    assert facula.tensor(3.0).quantile(0.2).item() == 3 and facula.tensor(3.0).quantile(0.2).shape == ()
    with pytest.raises(RuntimeError, match=r"range \[0, 1\]"):
        facula.ones(3).quantile(1.5)
    with pytest.raises(RuntimeError, match="float or double"):
        facula.arange(3).quantile(0.5)
    with pytest.raises(RuntimeError, match="same dtype"):
        facula.ones(3).quantile(t([0.5]))
    assert gradcheck(lambda x: x.quantile(0.3, 0), (t(rng.permutation(10.0 * np.arange(6)), requires_grad=True),))


def test_meta():
    x = facula.ones(2, 3, device="meta")
    assert x.quantile(0.5, 1).shape == (2,) and facula.cov(x).shape == (2, 2) and x.mode().values.shape == (2,)
    assert F.binary_cross_entropy(x, x).shape == () and facula.column_stack((x, x)).shape == (2, 6)
    assert facula.hann_window(4, device="meta").is_meta


def test_nanmedian_and_mode(rng):
    x = np.where(rng.uniform(size=(5, 6)) < 0.3, np.nan, rng.normal(size=(5, 6)))
    x[:, 0] = 0.5
    for dim in (0, 1):
        made = facula.nanmedian(t(x), dim)
        want = np.nanquantile(np.where(np.isnan(x).all(dim, keepdims=True), 0, x), 0.5, axis=dim, method="lower")
        got = made.values.numpy()
        gone = np.isnan(x).all(dim)
        np.testing.assert_array_equal(got[~gone], want[~gone])
        assert np.isnan(got[gone]).all()
        places = np.expand_dims(made.indices.numpy(), dim)
        np.testing.assert_array_equal(np.take_along_axis(x, places, dim).squeeze(dim), got)
    close(t(x).nanmedian(), np.nanquantile(x, 0.5, method="lower"))
    assert facula.arange(4).nanmedian().item() == 1
    y = rng.integers(0, 4, size=(5, 9))
    for dim in (0, 1, -1):
        values, indices = facula.mode(t(y), dim)
        want = np.apply_along_axis(lambda row: np.bincount(row).argmax(), dim, y)
        assert values.tolist() == want.tolist()
        assert np.take_along_axis(y, np.expand_dims(indices.numpy(), dim), dim).squeeze(dim).tolist() == want.tolist()
    assert t(y).mode(0, True).values.shape == (1, 9)


def test_trapezoid(rng):
    integrate = pytest.importorskip("scipy.integrate")
    y, x = rng.normal(size=(3, 5)), np.sort(rng.normal(size=5))
    close(facula.trapezoid(t(y), t(x)), integrate.trapezoid(y, x))
    close(facula.trapz(t(y), dx=0.5, dim=0), integrate.trapezoid(y, dx=0.5, axis=0))
    close(facula.trapezoid(t(y), t(x[:3]), dim=0), integrate.trapezoid(y, x[:3], axis=0))
    grid = np.sort(rng.normal(size=(3, 5)))
    close(facula.trapezoid(t(y), t(grid)), integrate.trapezoid(y, grid))
    close(facula.cumulative_trapezoid(t(y), t(x)), integrate.cumulative_trapezoid(y, x))
    close(facula.cumulative_trapezoid(t(y), dx=2, dim=0), integrate.cumulative_trapezoid(y, dx=2, axis=0))
    assert facula.trapezoid(facula.ones(2, 0)).tolist() == [0, 0]


@pytest.mark.parametrize("length", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(length, periodic):
    for name, more in (("hann", {}), ("hamming", {}), ("blackman", {}), ("bartlett", {}), ("kaiser", {"beta": 5.0})):
        got = getattr(facula, name + "_window")(length, periodic, dtype=facula.float64, **more)
        close(got, getattr(signal_windows, name)(length, sym=not periodic, **more) if length else np.ones(0), 1e-7)
        assert getattr(facula, name + "_window")(length).dtype is facula.float32
    with pytest.raises(RuntimeError, match="floating"):
        facula.hann_window(4, dtype=facula.int64)
    with pytest.raises(RuntimeError, match="non-negative"):
        facula.hann_window(-1)


def test_range():
    assert facula.range(1, 4).tolist() == [1, 2, 3, 4] and facula.range(1, 4).dtype is facula.float32
    assert facula.range(1, 2.1, 0.5).tolist() == [1, 1.5, 2]
    assert facula.range(3, 1, -1, dtype=facula.int64).tolist() == [3, 2, 1]
    with pytest.raises(RuntimeError, match="inconsistent"):
        facula.range(3, 1)


def test_einsum_with_lists(rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3, 4))
    close(facula.einsum(t(a), [0, 1], t(b), [1, 2], [0, 2]), a @ b)
    close(facula.einsum(t(a), [0, 30], t(b), [30, 2]), a @ b)
    c = rng.normal(size=(5, 2, 3))
    close(facula.einsum(t(c), [..., 0, 1], [..., 1, 0]), c.swapaxes(1, 2))
    close(facula.einsum(t(a), [0, 1]), np.einsum(a, [0, 1]))
    with pytest.raises(ValueError, match="from 0 to 51"):
        facula.einsum(t(a), [0, 52])
    with pytest.raises(TypeError):
        facula.einsum(t(a), t(b))


def test_names_of_flags_as_functions():
    x = facula.ones(2, dtype=facula.complex64)
    assert facula.is_conj(x.conj()) == x.conj().is_conj() and not facula.is_conj(x)
    assert facula.resolve_conj(x.conj()).tolist() == [1, 1] and facula.resolve_neg(x) is not None
    y = facula.ones(2, requires_grad=True)
    assert not facula.detach(y).requires_grad and facula.is_signed(y) and facula.is_same_size(y, x)
    facula._assert(True, "fine")
    with pytest.raises(AssertionError, match="not so"):
        facula._assert(False, "not so")


@pytest.mark.parametrize("call", [
    lambda v: facula.numel(v), lambda v: facula.is_complex(v), lambda v: facula.is_floating_point(v),
    lambda v: facula.is_nonzero(v), lambda v: facula.tensordot(v, v), lambda v: facula.combinations(v),
    lambda v: facula.norm(v), lambda v: facula.linalg.norm(v), lambda v: facula.linalg.matrix_norm(v),
    lambda v: facula.linalg.vector_norm(v), lambda v: facula.linalg.vecdot(v, v), lambda v: facula.linalg.diagonal(v),
    lambda v: facula.linalg.multi_dot([v, v]), lambda v: F.glu(v), lambda v: F.softsign(v), lambda v: F.tanhshrink(v),
    lambda v: F.embedding(v, v), lambda v: F.normalize(v), lambda v: F.relu(v), lambda v: F.cross_entropy(v, v),
    lambda v: facula.quantile(v, 0.5), lambda v: facula.cov(v), lambda v: facula.special.entr(v),
])
def test_arguments_that_are_no_tensors(call):
    for value in ([1.0, 2.0], 3, None):
        with pytest.raises(TypeError, match=rf"must be (a )?.*Tensor.*not {type(value).__name__}"):
            call(value)


def test_methods_have_names_and_signatures():
    for name in ("hsplit", "quantile", "float_power_", "addr", "unique", "cov", "sum_to_size"):
        method = getattr(facula.Tensor, name)
        assert method.__name__ == name and method.__doc__ and len(inspect.signature(method).parameters) > 1


def test_matrix_norm_says_what_it_has():
    with pytest.raises(RuntimeError, match="Order mean not supported"):
        facula.linalg.matrix_norm(facula.ones(2, 2), "mean")
    with pytest.raises(NotImplementedError, match="singular values"):
        facula.linalg.matrix_norm(facula.ones(2, 2), "nuc")


@pytest.mark.parametrize("name, more", [
    ("relu", ()), ("relu6", ()), ("elu", (0.7,)), ("selu", ()), ("celu", (0.7,)), ("silu", ()), ("mish", ()),
    ("leaky_relu", (0.2,)), ("hardtanh", (-0.5, 0.7)), ("hardsigmoid", ()), ("hardswish", ()),
    ("threshold", (0.1, 9.0)),
])
def test_activations_in_place(rng, name, more):
    x = rng.normal(size=(3, 4))
    want = getattr(F, name)(t(x), *more)
    y = t(x)
    assert getattr(F, name)(y, *more, inplace=True) is y
    close(y, want.numpy())
    if hasattr(F, name + "_"):
        z = t(x)
        assert getattr(F, name + "_")(z, *more) is z
        close(z, want.numpy())


def log_softmax(x, dim):
    return x - special.logsumexp(x, axis=dim, keepdims=True)


def reduce(values, reduction):
    return {"none": lambda v: v, "mean": np.mean, "sum": np.sum}[reduction](values)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(rng, reduction, smoothing, weighted):
    x, y, w = rng.normal(size=(4, 3, 2)), rng.integers(0, 3, size=(4, 2)), rng.uniform(0.5, 2, size=3)
    y[0, 0] = 1
    y[1, 1] = -7
    weight = w if weighted else np.ones(3)
    given = {"weight": t(w)} if weighted else {}
    logs = log_softmax(x, 1)
    kept = y != -7
    hot = np.moveaxis(np.eye(3)[np.where(kept, y, 0)], -1, 1) * kept[:, None]
    soft = hot * (1 - smoothing) + smoothing / 3 * kept[:, None]
    each = -(logs * soft * weight[:, None]).sum(1)
    want = each if reduction == "none" else each.sum()
    if reduction == "mean":
        want = want / (hot * weight[:, None]).sum()
    close(F.cross_entropy(t(x), t(y), ignore_index=-7, reduction=reduction, label_smoothing=smoothing, **given), want)
    shares = rng.dirichlet(np.ones(3), size=(4, 2)).transpose(0, 2, 1)
    each = -(logs * (shares * (1 - smoothing) + smoothing / 3) * weight[:, None]).sum(1)
    close(F.cross_entropy(t(x), t(shares), reduction=reduction, label_smoothing=smoothing, **given),
          reduce(each, reduction))
    a = t(x, requires_grad=True)
    assert gradcheck(lambda a: F.cross_entropy(a, t(y), ignore_index=-7, reduction=reduction,
                                               label_smoothing=smoothing, **given), (a,))
    assert gradcheck(lambda a: F.cross_entropy(a, t(shares), reduction=reduction, label_smoothing=smoothing, **given),
                     (a,))


def test_cross_entropy_of_one_example_and_errors(rng):
    x = rng.normal(size=5)
    close(F.cross_entropy(t(x), facula.tensor(2)), -log_softmax(x, 0)[2])
    with pytest.raises(RuntimeError, match="label_smoothing"):
        F.cross_entropy(t(x), facula.tensor(2), label_smoothing=2)
    with pytest.raises(ValueError, match="reduction"):
        F.cross_entropy(t(x), facula.tensor(2), reduction="most")
    with pytest.raises(RuntimeError, match="weight"):
        F.cross_entropy(t(x), facula.tensor(2), weight=facula.ones(4))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(rng, reduction):
    def check(function, inputs, each, fixed=(), **keywords):
        drawn = [t(v, requires_grad=True) for v in inputs]
        fixed = [t(v) for v in fixed]
        close(function(*drawn, *fixed, reduction=reduction, **keywords), reduce(each, reduction))
        assert gradcheck(lambda *a: function(*a, *fixed, reduction=reduction, **keywords), drawn)

    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    p, q = rng.uniform(0.05, 0.95, size=(4, 3)), rng.uniform(0.05, 0.95, size=(4, 3))
    sign = rng.choice([-1.0, 1.0], size=(4, 3))
    w = rng.uniform(size=(4, 3))
    check(F.binary_cross_entropy, (p, q), -(q * np.log(p) + (1 - q) * np.log1p(-p)))
    check(F.binary_cross_entropy, (p, q), -w * (q * np.log(p) + (1 - q) * np.log1p(-p)), weight=t(w))
    check(F.kl_div, (x, q), q * (np.log(q) - x))
    check(F.kl_div, (x, y), np.exp(y) * (y - x), log_target=True)
    check(F.soft_margin_loss, (x,), np.log1p(np.exp(-sign * x)), (sign,))
    check(F.hinge_embedding_loss, (x,), np.where(sign == 1, x, np.maximum(0, 0.9 - x)), (sign,), margin=0.9)
    check(F.margin_ranking_loss, (x, y), np.maximum(0, -sign * (x - y) + 0.2), (sign,), margin=0.2)
    cosine = (x * y).sum(1) / np.sqrt((x ** 2).sum(1) * (y ** 2).sum(1))
    s = sign[:, 0]
    check(F.cosine_embedding_loss, (x, y), np.where(s == 1, 1 - cosine, np.maximum(0, cosine - 0.1)), (s,), margin=0.1)
    counts = rng.integers(0, 5, size=(4, 3)).astype(float)
    more = np.where(counts > 1, counts, 1)
    stirling = np.where(counts > 1, more * np.log(more) - more + 0.5 * np.log(2 * np.pi * more), 0)
    check(F.poisson_nll_loss, (x,), np.exp(x) - counts * x + stirling, (counts,), full=True)
    check(F.poisson_nll_loss, (p,), p - counts * np.log(p + 1e-8), (counts,), log_input=False)
    gauss = 0.5 * (np.log(p) + (x - y) ** 2 / p)
    check(F.gaussian_nll_loss, (x, y, p), gauss)
    check(F.gaussian_nll_loss, (x, y, p), gauss + 0.5 * np.log(2 * np.pi), full=True)
    z = rng.normal(size=(4, 3))
    near, far = (np.linalg.norm(a - b + 1e-6, axis=1) for a, b in ((x, y), (x, z)))
    other = np.linalg.norm(y - z + 1e-6, axis=1)
    check(F.triplet_margin_loss, (x, y, z), np.maximum(0, near - far + 2), margin=2.0)
    check(F.triplet_margin_loss, (x, y, z), np.maximum(0, near - np.minimum(far, other) + 2), margin=2.0, swap=True)


def test_losses_at_the_edges():
    x = facula.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    loss = F.binary_cross_entropy(x, facula.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none")
    assert loss.tolist() == [0, 0, 100, 100]
    loss.sum().backward()
    assert x.grad.isfinite().all() and x.grad[2] < 0 < x.grad[3]
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(facula.tensor([1.5]), facula.ones(1))
    with pytest.raises(ValueError, match="size"):
        F.binary_cross_entropy(facula.ones(2), facula.ones(1))
    assert F.kl_div(facula.zeros(2), facula.zeros(2)).item() == 0
    assert F.kl_div(facula.zeros(2, 3), facula.ones(2, 3) * math.e, "batchmean").item() == pytest.approx(3 * math.e)
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(facula.ones(2), facula.ones(2), -facula.ones(2))
    assert F.gaussian_nll_loss(facula.ones(2, 3), facula.zeros(2, 3), 1.0).item() == 0.5
    assert F.soft_margin_loss(facula.tensor([-500.0]), facula.ones(1)).item() == 500


def test_losses_inside_vmap(rng):
    p, y = rng.uniform(0.1, 0.9, size=(5, 4, 3)), rng.integers(0, 3, size=(5, 4))
    for function, target in ((F.binary_cross_entropy, t(p)), (F.cross_entropy, t(y))):
        want = [function(a, b).item() for a, b in zip(t(p), target)]
        close(facula.func.vmap(function)(t(p), target), want)
        close(facula.func.vmap(facula.func.grad(function))(t(p), target),
              np.stack([facula.func.grad(function)(a, b).numpy() for a, b in zip(t(p), target)]))


def test_prelu_and_bilinear(rng):
    x, w = rng.normal(size=(2, 3, 4)), rng.uniform(size=3)
    close(F.prelu(t(x), t(w)), np.where(x > 0, x, w[:, None] * x))
    close(F.prelu(t(x), t(w[:1])), np.where(x > 0, x, w[0] * x))
    assert gradcheck(F.prelu, (t(x, requires_grad=True), t(w, requires_grad=True)))
    with pytest.raises(RuntimeError, match="channel size"):
        F.prelu(t(x), t(np.ones(4)))
    a, b, m = rng.normal(size=(2, 6, 3)), rng.normal(size=(2, 6, 4)), rng.normal(size=(5, 3, 4))
    bias = rng.normal(size=5)
    close(F.bilinear(t(a), t(b), t(m), t(bias)), np.einsum("...i,oij,...j->...o", a, m, b) + bias)


def test_gumbel_softmax(rng):
    logits = t(rng.normal(size=(50, 4)), requires_grad=True)
    facula.manual_seed(SEED)
    soft = F.gumbel_softmax(logits, tau=0.5)
    close(soft.sum(1), np.ones(50))
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(np.round(hard.detach().numpy(), 12).ravel()) == {0.0, 1.0}
    close(hard.sum(1), np.ones(50))
    (hard[:, 0]).sum().backward()
    assert logits.grad.abs().sum() > 0
    share = F.gumbel_softmax(facula.log(facula.tensor([0.2, 0.8])).expand(20000, 2), hard=True).mean(0)
    assert share[1].item() == pytest.approx(0.8, abs=0.02)


def test_pixel_shuffle(rng):
    x = rng.normal(size=(2, 8, 3, 5))
    want = np.zeros((2, 2, 6, 10))
    for i in range(2):
        for j in range(2):
            want[:, :, i::2, j::2] = x[:, i * 2 + j::4]
    close(F.pixel_shuffle(t(x), 2), want)
    close(F.pixel_unshuffle(t(want), 2), x)
    close(F.pixel_shuffle(t(x[0]), 2), want[0])
    with pytest.raises(RuntimeError, match="divisible"):
        F.pixel_shuffle(facula.ones(3, 2, 2), 2)


def test_results_with_names_that_are_composed():
    x = facula.tensor([[1.0, 1.0, 2.0]])
    for made, name in ((facula.mode(x), "mode"), (facula.nanmedian(x, 1), "nanmedian")):
        kind = getattr(facula.return_types, name)
        assert type(made) is kind and kind.__module__ == "facula.return_types"
        assert repr(made) == (f"facula.return_types.{name}(\nvalues={made.values!r},\nindices={made.indices!r})")
        again = pickle.loads(pickle.dumps(made))
        assert type(again) is kind and again.values.tolist() == made.values.tolist()
