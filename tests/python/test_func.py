"""Functions of functions against closed forms, finite differences and loops."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import facula
from facula.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap


def draw(*sizes, seed=0):
    return facula.tensor(np.random.default_rng(seed).standard_normal(sizes).tolist(), dtype=facula.float64)


def numbers(t):
    return np.array(t.tolist())


def close(a, b, tolerance=1e-9):
    np.testing.assert_allclose(
        numbers(a), numbers(b) if hasattr(b, "tolist") else np.array(b), rtol=tolerance, atol=tolerance
    )


def test_grad():
    x = draw(3)
    close(grad(lambda t: (t**3).sum())(x), 3 * x**2)
    assert not grad(lambda t: (t**3).sum())(x).requires_grad
    gradient, value = grad_and_value(lambda t: (t**2).sum())(x)
    close(gradient, 2 * x)
    close(value, (x**2).sum())
    close(grad(grad(lambda t: t**3))(draw()), 6 * draw())


def test_grad_argnums_structures_and_aux():
    x, y = draw(2), draw(2, seed=1)
    f = lambda a, b: (a * b).sum()  # noqa: E731
    close(grad(f, argnums=1)(x, y), x)
    close(grad(f, argnums=-1)(x, y), x)
    a, b = grad(f, argnums=(0, 1))(x, y)
    close(a, y)
    close(b, x)
    found = grad(lambda p: (p["w"] * p["b"][0]).sum())({"w": x, "b": [y]})
    close(found["w"], y)
    close(found["b"][0], x)
    gradient, aux = grad(lambda t: ((t * 2).sum(), {"seen": t * 3, "n": 5}), has_aux=True)(x)
    close(gradient, [2.0, 2.0])
    close(aux["seen"], 3 * x)
    assert aux["n"] == 5 and not aux["seen"].requires_grad
    close(grad(lambda t, *, k: (t * k).sum())(x, k=4.0), [4.0, 4.0])


def test_grad_errors():
    x = draw(2)
    with pytest.raises(RuntimeError, match="scalar"):
        grad(lambda t: t)(x)
    with pytest.raises(RuntimeError, match="single tensor"):
        grad(lambda t: (t.sum(), t.sum()))(x)
    with pytest.raises(RuntimeError, match="argnum"):
        grad(lambda t: t.sum(), argnums=3)(x)
    with pytest.raises(RuntimeError, match="unique"):
        grad(lambda a, b: a.sum(), argnums=(0, 0))(x, x)
    with pytest.raises(RuntimeError, match="aux"):
        grad(lambda t: t.sum(), has_aux=True)(x)
    with pytest.raises(KeyError, match="mine"):
        grad(lambda t: {}["mine"])(x)


def test_grad_inside_of_recorded_code():
    w = draw(3).requires_grad_()
    x = draw(3, seed=1)
    found = grad(lambda t: (t * t * w).sum())(x)
    found.sum().backward()
    close(w.grad, 2 * x)


def test_vjp():
    x, y = draw(3), draw(3, seed=1)
    out, pulled = vjp(lambda a, b: {"s": a * b, "c": a.cos()}, x, y)
    close(out["s"], x * y)
    g, h = draw(3, seed=2), draw(3, seed=3)
    a, b = pulled({"s": g, "c": h})
    close(a, g * y - h * x.sin())
    close(b, g * x)
    out, pulled, aux = vjp(lambda a: (a * 2, a * 3), x, has_aux=True)
    close(aux, 3 * x)
    close(pulled(g)[0], 2 * g)
    with pytest.raises(RuntimeError, match="shape|same"):
        pulled(draw(4))
    with pytest.raises(RuntimeError, match="cotangents"):
        pulled(g, g)


def test_jvp_and_linearize():
    x, t = draw(3), draw(3, seed=1)
    value, derivative = jvp(lambda a: (a.sin(), {"k": a * a}), (x,), (t,))
    close(value[0], x.sin())
    close(derivative[0], x.cos() * t)
    close(derivative[1]["k"], 2 * x * t)
    value, derivative, aux = jvp(lambda a: (a.sin(), a * 2), (x,), (t,), has_aux=True)
    close(aux, 2 * x)
    value, push = linearize(lambda a: a**3, x)
    close(push(t), 3 * x**2 * t)
    with pytest.raises(RuntimeError, match="tuple"):
        jvp(lambda a: a, x, t)
    with pytest.raises(RuntimeError, match="structure"):
        jvp(lambda a: a, (x,), ([t],))
    with pytest.raises(KeyError):
        jvp(lambda a: {}[0], (x,), (t,))
    assert facula.autograd.forward_ad.unpack_dual(x).tangent is None


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians(jacobian):
    matrix = draw(4, 3, seed=5)
    x = draw(3)
    close(jacobian(lambda t: matrix @ t.sin())(x), numbers(matrix) * np.cos(numbers(x)))
    f = lambda a, b: (a.sum() * b, [a * 2])  # noqa: E731
    y = draw(2, seed=1)
    (sum_a, sum_b), [(twice_a, twice_b)] = jacobian(f, argnums=(0, 1))(x, y)
    close(sum_a, np.outer(numbers(y), np.ones(3)))
    close(sum_b, np.eye(2) * numbers(x).sum())
    close(twice_a, 2 * np.eye(3))
    close(twice_b, np.zeros((3, 2)))
    found, aux = jacobian(lambda t: (t**2, t.sum()), has_aux=True)(x)
    close(found, np.diag(2 * numbers(x)))
    close(aux, x.sum())
    close(jacobian(lambda t: t**2, chunk_size=2)(x), np.diag(2 * numbers(x)))
    assert tuple(jacobian(lambda t: t.sum())(draw(0)).shape) == (0,)


def test_hessian_against_differences():
    def f(t):
        return (t.sin() * t[0]).sum() + t.prod()

    x = draw(4)
    found = hessian(f)(x)
    gradient = grad(f)
    step = 1e-6
    for i in range(4):
        unit = facula.zeros(4, dtype=facula.float64)
        unit[i] = step
        close(found[i], (numbers(gradient(x + unit)) - numbers(gradient(x - unit))) / (2 * step), 1e-6)
    close(jacrev(jacrev(f))(x), found)
    close(jacfwd(jacfwd(f))(x), found)


def test_vmap_against_loops():
    a, b = draw(5, 3), draw(5, 3, seed=1)
    close(vmap(lambda x, y: (x * y).sum())(a, b), (a * b).sum(1))
    close(vmap(lambda x, y: x @ y, in_dims=(0, None))(a, b[0]), a @ b[0])
    close(vmap(lambda x: x * 2, in_dims=1, out_dims=1)(a), 2 * a)
    close(vmap(lambda x: x.sin(), out_dims=1)(a), a.sin().T)
    close(vmap(lambda x: x.sin(), in_dims=-1, out_dims=-1)(a), a.sin())
    close(vmap(vmap(lambda x: x * x))(a), a * a)
    close(vmap(grad(lambda x: (x**2).sum()))(a), 2 * a)
    close(vmap(lambda x: facula.ones(2, dtype=facula.float64))(a), np.ones((5, 2)))


def test_vmap_structures():
    Point = namedtuple("Point", "x y")
    a, b = draw(4, 2), draw(2, 4, seed=1)
    out = vmap(lambda p, k: {"s": p.x + p.y, "t": (p.x * k, [p.y])}, in_dims=(Point(0, 1), None))(Point(a, b), 3.0)
    close(out["s"], numbers(a) + numbers(b).T)
    close(out["t"][0], 3 * a)
    close(out["t"][1][0], numbers(b).T)
    first, second = vmap(lambda x: (x, x * 2), out_dims=(0, 1))(a)
    close(first, a)
    close(second, 2 * a.T)
    ordered = vmap(lambda d: OrderedDict((k, v * 2) for k, v in d.items()))(OrderedDict(p=a))
    assert type(ordered) is OrderedDict
    shared = draw(3)
    mapped, same = vmap(lambda x: (x, shared), out_dims=(0, None))(a)
    assert same is shared
    with pytest.raises(ValueError, match="None"):
        vmap(lambda x: x, out_dims=None)(a)


def test_vmap_chunks():
    a = draw(7, 3)
    calls = []

    def f(x):
        calls.append(1)
        return x.sum(), x * 2

    for size in (1, 2, 3, 7, 10):
        calls.clear()
        s, t = vmap(f, out_dims=(0, 1), chunk_size=size)(a)
        close(s, a.sum(1))
        close(t, 2 * a.T)
        assert len(calls) == -(-7 // min(size, 7))
    with pytest.raises(ValueError, match="chunk_size"):
        vmap(f, chunk_size=0)


def test_vmap_errors():
    a = draw(2, 3)
    for call, text in [
        (lambda: vmap(lambda x: x)(), "no inputs"),
        (lambda: vmap(lambda x: x, in_dims=(None,))(a), "at least one"),
        (lambda: vmap(lambda x: x)(3.0), "non-Tensor"),
        (lambda: vmap(lambda x: x, in_dims=5)(a), "dimensionality"),
        (lambda: vmap(lambda x, y: x)(a, draw(3)), "same size"),
        (lambda: vmap(lambda x: 3.0)(a), "only return Tensors"),
        (lambda: vmap(lambda x: x, in_dims=(0, 0))(a), "structure"),
        (lambda: vmap(lambda x: x, in_dims="a")(a), "in_dims"),
        (lambda: vmap(lambda x: (x, x), out_dims=(0, 0, 0))(a), "out_dims"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: x, randomness="some")
    with pytest.raises(KeyError, match="mine"):
        vmap(lambda x: {}["mine"])(a)


def test_per_sample_gradients():
    w, b = draw(3, 2), draw(2, seed=1)
    xs, ys = draw(6, 3, seed=2), draw(6, 2, seed=3)

    def loss(parameters, x, y):
        return ((x @ parameters["w"] + parameters["b"] - y) ** 2).sum()

    found = vmap(grad(loss), in_dims=(None, 0, 0))({"w": w, "b": b}, xs, ys)
    residual = 2 * (numbers(xs) @ numbers(w) + numbers(b) - numbers(ys))
    close(found["b"], residual)
    close(found["w"], np.einsum("ni,nj->nij", numbers(xs), residual))


def test_pytree_round_trip():
    from facula.utils._pytree import tree_flatten, tree_map, tree_unflatten

    Pair = namedtuple("Pair", "a b")
    tree = {"x": [1, (2, Pair(3, 4))], "y": OrderedDict(z=5), "n": None}
    leaves, spec = tree_flatten(tree)
    assert leaves == [1, 2, 3, 4, 5, None] and spec.num_leaves == 6
    assert tree_unflatten(leaves, spec) == tree and type(tree_unflatten(leaves, spec)["x"][1][1]) is Pair
    assert tree_map(lambda a, b: (a or 0) + b, [1, None], [2, 3]) == [3, 3]
    with pytest.raises(ValueError):
        tree_unflatten([1], spec)


def test_vmap_randomness():
    a = facula.zeros(6, 2)
    f = lambda x: x + facula.rand(2)  # noqa: E731
    with pytest.raises(RuntimeError, match="random"):
        vmap(f)(a)
    for options in ({}, {"chunk_size": 2}):
        same = numbers(vmap(f, randomness="same", **options)(a))
        assert (same == same[0]).all()
        different = numbers(vmap(f, randomness="different", **options)(a))
        assert len({tuple(row) for row in different.tolist()}) == 6
