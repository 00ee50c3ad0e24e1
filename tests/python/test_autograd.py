"""Backward passes, modes, forward mode and checks, against closed forms and finite differences."""

import asyncio
import threading
import warnings

import numpy as np
import pytest

import facula
from facula.autograd import backward, grad
from facula.autograd import forward_ad as fwd
from facula.autograd import functional


def draw(*sizes, seed=0, requires_grad=True):
    numbers = np.random.default_rng(seed).standard_normal(sizes)
    return facula.tensor(numbers.tolist(), dtype=facula.float64, requires_grad=requires_grad)


def close(a, b):
    np.testing.assert_allclose(
        np.array(a.tolist()), np.array(b.tolist() if hasattr(b, "tolist") else b), rtol=1e-9, atol=1e-12
    )


def test_backward_of_a_product():
    a, b = draw(3, seed=1), draw(3, seed=2)
    (a * b).sum().backward()
    close(a.grad, b.detach())
    close(b.grad, a.detach())


def test_grad_accumulates_and_can_be_set():
    x = draw(4)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    close(x.grad, [5.0] * 4)
    assert x.grad is x.grad
    x.grad = None
    assert x.grad is None
    x.grad = facula.ones(4, dtype=facula.float64)
    close(x.grad, [1.0] * 4)
    del x.grad
    assert x.grad is None
    with pytest.raises(TypeError, match="Tensor or None"):
        x.grad = 3
    with pytest.raises(RuntimeError, match="own grad"):
        x.grad = x
    with pytest.raises(RuntimeError):
        x.grad = facula.ones(5, dtype=facula.float64)


def test_backward_arguments():
    x = draw(3)
    y = x * x
    y.backward(facula.ones_like(y), retain_graph=True)
    y.backward(gradient=facula.ones_like(y))
    close(x.grad, 4 * x.detach())
    with pytest.raises(RuntimeError, match="second time"):
        y.backward(facula.ones_like(y))
    with pytest.raises(RuntimeError, match="scalar"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        facula.ones(1).backward()
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * 2).sum().backward(inputs=[])
    with pytest.raises(TypeError):
        (x * 2).sum().backward(wrong=1)


def test_backward_with_inputs_only():
    a, b = draw(2, seed=1), draw(2, seed=2)
    (a * b).sum().backward(inputs=[a])
    close(a.grad, b.detach())
    assert b.grad is None


def test_module_backward_with_several_roots():
    x = draw(3)
    backward([x.sum(), (x * x).sum()])
    close(x.grad, 1 + 2 * x.detach())
    x.grad = None
    backward((x * 2, (x * 3).sum()), (facula.full((3,), 10.0, dtype=facula.float64), None))
    close(x.grad, [23.0] * 3)
    with pytest.raises(RuntimeError, match="gradients"):
        backward([x.sum()], [None, None])


def test_grad_of_second_order():
    x = draw(5)
    (first,) = grad((x**3).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    close(second, 6 * x.detach())
    assert x.grad is None


def test_grad_of_unused_inputs():
    x, y = draw(2), draw(2)
    with pytest.raises(RuntimeError, match="not have been used"):
        grad(x.sum(), [x, y])
    found = grad(x.sum(), [x, y], allow_unused=True)
    assert found[1] is None
    found = grad(x.sum(), [x, y], materialize_grads=True)
    close(found[1], [0.0, 0.0])
    with pytest.raises(ValueError, match="allow_unused"):
        grad(x.sum(), [x, y], materialize_grads=True, allow_unused=False)


def test_grad_of_a_batch_of_gradients():
    x = draw(3)
    y = x**2
    (rows,) = grad(y, x, facula.eye(3, dtype=facula.float64), is_grads_batched=True)
    close(rows, np.diag(2 * np.array(x.tolist())))


def test_leaves_views_and_versions():
    x = draw(4)
    y = x * 2
    assert x.is_leaf and not y.is_leaf and y.requires_grad and x.grad_fn is None
    assert y.grad_fn.name() == "MulBackward0" and y.output_nr == 0
    v = y[1:]
    assert v._is_view() and v._base is y and y._base is None
    before = y._version
    y.mul_(2)
    assert y._version == before + 1
    d = y.detach()
    assert not d.requires_grad and d.is_leaf
    z = (x * 1).detach_()
    assert z.is_leaf and not z.requires_grad
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad = False
    with pytest.raises(RuntimeError):
        facula.ones(2, dtype=facula.int64).requires_grad_()
    with pytest.raises(TypeError):
        x.requires_grad = 1
    assert x.requires_grad_(False) is x and not x.requires_grad


def test_in_place_changes_of_saved_tensors_are_noticed():
    x = draw(3)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)


def test_retain_grad():
    x = draw(3)
    y = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="not a leaf"):
            y.grad
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    close(y.grad, 4 * x.detach())
    with pytest.raises(RuntimeError):
        facula.ones(1).retain_grad()


def test_no_grad_forms():
    x = draw(2)
    with facula.no_grad():
        assert not facula.is_grad_enabled() and not (x * 2).requires_grad
        with facula.enable_grad():
            assert (x * 2).requires_grad
        assert not facula.is_grad_enabled()
    assert facula.is_grad_enabled()

    @facula.no_grad()
    def one(t, *, k=2):
        """doc"""
        return t * k

    @facula.no_grad
    def two(t):
        return t * 2

    @facula.enable_grad()
    def three(t):
        return t * 2

    assert not one(x, k=3).requires_grad and not two(x).requires_grad and one.__name__ == "one" and one.__doc__ == "doc"
    with facula.no_grad():
        assert three(x).requires_grad
    with pytest.raises(ZeroDivisionError), facula.no_grad():
        1 / 0
    assert facula.is_grad_enabled()
    guard = facula.no_grad()
    with guard:
        with guard:
            pass
        assert not facula.is_grad_enabled()
    assert facula.is_grad_enabled()
    with pytest.raises(TypeError):
        facula.no_grad(3)
    with pytest.raises(RuntimeError):
        guard.__exit__(None, None, None)


def test_no_grad_on_generators_and_coroutines():
    @facula.no_grad()
    def numbers():
        inside = []
        try:
            for _ in range(2):
                inside.append(facula.is_grad_enabled())
                got = yield inside[-1]
                inside.append(got)
        except KeyError:
            inside.append(facula.is_grad_enabled())
            yield inside

    steps = numbers()
    assert next(steps) is False and facula.is_grad_enabled()
    assert steps.send("a") is False and facula.is_grad_enabled()
    assert steps.throw(KeyError()) == [False, "a", False, False]
    assert facula.is_grad_enabled()

    @facula.no_grad()
    async def later():
        before = facula.is_grad_enabled()
        await asyncio.sleep(0)
        return before, facula.is_grad_enabled()

    async def main():
        task = asyncio.ensure_future(later())
        await asyncio.sleep(0)
        outside = facula.is_grad_enabled()
        return await task, outside

    assert asyncio.run(main()) == ((False, False), True)

    @facula.no_grad()
    async def many():
        for _ in range(2):
            yield facula.is_grad_enabled()

    async def collect():
        return [(inside, facula.is_grad_enabled()) async for inside in many()]

    assert asyncio.run(collect()) == [(False, True), (False, True)]


def test_set_grad_enabled():
    try:
        facula.set_grad_enabled(False)
        assert not facula.is_grad_enabled()
    finally:
        facula.set_grad_enabled(True)
    with facula.set_grad_enabled(False):
        assert not facula.is_grad_enabled()
    assert facula.is_grad_enabled()

    @facula.set_grad_enabled(False)
    def f():
        return facula.is_grad_enabled()

    assert facula.is_grad_enabled() and f() is False and facula.is_grad_enabled()


def test_inference_mode():
    with facula.inference_mode():
        assert facula.is_inference_mode_enabled() and not facula.is_grad_enabled()
        t = facula.ones(2)
        with facula.inference_mode(False):
            assert not facula.is_inference_mode_enabled()
            u = facula.ones(2)
    assert not facula.is_inference_mode_enabled() and facula.is_grad_enabled()
    assert t.is_inference() and not u.is_inference()
    with pytest.raises(RuntimeError):
        t.requires_grad_()

    @facula.inference_mode
    def f():
        return facula.ones(1)

    @facula.inference_mode()
    def g():
        return facula.ones(1)

    assert f().is_inference() and g().is_inference()


def test_modes_belong_to_threads():
    seen = []
    with facula.no_grad():
        worker = threading.Thread(target=lambda: seen.append(facula.is_grad_enabled()))
        worker.start()
        worker.join()
    assert seen == [True]


def test_backward_in_many_threads():
    w = draw(8, seed=3)
    results, errors = {}, []

    def work(i):
        try:
            x = draw(64, 8, seed=10 + i)
            for _ in range(20):
                x.grad = None
                ((x * w).sin().sum() * (i + 1)).backward(inputs=[x])
            results[i] = (x.grad, (x.detach() * w.detach()).cos() * w.detach() * (i + 1))
        except BaseException as error:  # shown below
            errors.append(error)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert not errors
    for found, expected in results.values():
        close(found, expected)


def test_threads_share_one_graph():
    x = draw(1000)
    y = (x.sin() * x).sum()
    (expected,) = grad(y, x, retain_graph=True)
    found = []

    def work():
        for _ in range(10):
            found.append(grad(y, x, retain_graph=True)[0])

    workers = [threading.Thread(target=work) for _ in range(3)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert len(found) == 30
    for each in found:
        close(each, expected)


def test_other_threads_run_during_backward():
    """A hook waits for another thread, which can only move on when the interpreter's lock is free."""
    x = draw(2)
    y = x * 2
    event, done = threading.Event(), threading.Event()
    y.register_hook(lambda g: (event.set(), done.wait(10), None)[2])
    worker = threading.Thread(target=lambda: (event.wait(10), done.set()))
    worker.start()
    y.sum().backward()
    worker.join()
    assert done.is_set()


def test_anomaly_names_the_line():
    x = facula.tensor([0.0], requires_grad=True)
    with facula.autograd.detect_anomaly():
        y = facula.sqrt(x * 0) * 0
        with pytest.raises(RuntimeError, match="nan"):
            y.sum().backward()
    assert not facula.autograd.is_anomaly_enabled()
    with facula.autograd.set_detect_anomaly(True, check_nan=False):
        facula.sqrt(x * 0).mul(0).sum().backward()
    assert not facula.autograd.is_anomaly_enabled()


def test_forward_mode():
    x, t = draw(3, requires_grad=False), draw(3, seed=5, requires_grad=False)
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        value, tangent = fwd.unpack_dual(dual.sin() * dual)
        assert fwd.unpack_dual(x).tangent is None
    close(value, x.sin() * x)
    close(tangent, (x.cos() * x + x.sin()) * t)
    with pytest.raises(RuntimeError, match="level"):
        fwd.make_dual(x, t)
    with pytest.raises(RuntimeError, match="last one"):
        fwd.exit_dual_level(level=3)


def test_forward_over_forward():
    x = draw(2, requires_grad=False)
    one = facula.ones_like(x)
    with fwd.dual_level() as outer:
        a = fwd.make_dual(x, one)
        with fwd.dual_level() as inner:
            assert (outer, inner) == (0, 1)
            b = fwd.make_dual(a, one)
            first = fwd.unpack_dual(b**3).tangent
        second = fwd.unpack_dual(first).tangent
    close(second, 6 * x)


def test_functional_against_closed_forms():
    a = np.random.default_rng(7).standard_normal((3, 4))
    matrix = facula.tensor(a.tolist(), dtype=facula.float64)
    x = draw(4, requires_grad=False)
    v, w = draw(3, seed=8, requires_grad=False), draw(4, seed=9, requires_grad=False)
    f = lambda t: matrix @ t  # noqa: E731
    close(functional.vjp(f, x, v)[1], a.T @ np.array(v.tolist()))
    close(functional.jvp(f, x, w)[1], a @ np.array(w.tolist()))
    for options in ({}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        close(functional.jacobian(f, x, **options), a)
    g = lambda t: (t**3).sum() + (t[0] * t[1])  # noqa: E731
    numbers = np.array(x.tolist())
    expected = np.diag(6 * numbers)
    expected[0, 1] = expected[1, 0] = 1
    close(functional.hessian(g, x), expected)
    close(functional.hessian(g, x, vectorize=True), expected)
    close(functional.hvp(g, x, w)[1], expected @ np.array(w.tolist()))
    close(functional.vhp(g, x, w)[1], expected @ np.array(w.tolist()))


def test_functional_with_several_inputs_and_outputs():
    x, y = draw(2, requires_grad=False), draw(3, seed=1, requires_grad=False)
    f = lambda a, b: (a * 2, a.sum() * b)  # noqa: E731
    found = functional.jacobian(f, (x, y))
    close(found[0][0], 2 * np.eye(2))
    close(found[0][1], np.zeros((2, 3)))
    close(found[1][0], np.outer(np.array(y.tolist()), np.ones(2)))
    close(found[1][1], np.eye(3) * float(x.sum()))
    with pytest.raises(RuntimeError, match="strict"):
        functional.jacobian(f, (x, y), strict=True)
    with pytest.raises(RuntimeError, match="single element"):
        functional.vjp(f, (x, y))
    with pytest.raises(TypeError):
        functional.vjp(f, (x, 3))


def test_functional_keeps_the_graph_when_asked():
    x = draw(3)
    out = functional.jacobian(lambda t: t**3, x, create_graph=True)
    (found,) = grad(out.sum(), x)
    close(found, 6 * x.detach())
    assert not functional.jacobian(lambda t: t**3, x).requires_grad


def test_gradcheck():
    x = draw(3)
    assert facula.autograd.gradcheck(lambda t, k: t.sin() * k, (x, 2.0))
    assert facula.autograd.gradcheck(lambda t: (t.sin(), t * 2), x, check_forward_ad=True, check_batched_grad=True)
    assert facula.autograd.gradgradcheck(lambda t: t.exp(), (x,))

    class Wrong(facula.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.raises(facula.autograd.GradcheckError, match="gradcheck"):
        facula.autograd.gradcheck(Wrong.apply, (x,))
    assert not facula.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)

    def fails(t):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        facula.autograd.gradcheck(fails, (x,))


def test_checkpoint_saves_memory_and_gives_the_same():
    from facula.utils.checkpoint import checkpoint, checkpoint_sequential

    x = draw(16)
    calls = []

    def part(t, *, k, noise=True):
        calls.append(1)
        for _ in range(4):
            t = (t * k).sin()
        return {"a": t * facula.rand(16, dtype=facula.float64) if noise else t, "b": (t + 1, "text")}

    facula.manual_seed(3)
    plain = part(x, k=1.5)
    (expected,) = grad(plain["a"].sum() + plain["b"][0].sum(), x)
    calls.clear()
    facula.manual_seed(3)
    got = checkpoint(part, x, k=1.5, use_reentrant=False)
    assert got["b"][1] == "text" and len(calls) == 1
    close(got["a"], plain["a"].detach())
    (found,) = grad(got["a"].sum() + got["b"][0].sum(), x)
    assert len(calls) == 2
    close(found, expected)

    steps = [lambda t, k=k: (t * k).tanh() for k in range(1, 6)]
    y = x
    for step in steps:
        y = step(y)
    (expected,) = grad(y.sum(), x)
    for segments in (1, 2, 3, 5, 9):
        (found,) = grad(checkpoint_sequential(steps, segments, x).sum(), x)
        close(found, expected)


def test_checkpoint_passes_errors():
    from facula.utils.checkpoint import checkpoint

    runs = []

    def part(t):
        runs.append(1)
        if len(runs) > 1:
            raise LookupError("second")
        return t.sin()

    y = checkpoint(part, draw(2)).sum()
    with pytest.raises(LookupError, match="second"):
        y.backward()


def test_numbers_among_operands_have_the_names_of_tensors():
    """PyTorch's Python makes a tensor of the number first; its C++ does not."""
    x = facula.ones(2, requires_grad=True)
    for y, name in ((x + 1, "AddBackward0"), (1 + x, "AddBackward0"), (x - 1, "SubBackward0"), (x * 2, "MulBackward0"),
                    (x / 2, "DivBackward0"), (x.add(1, alpha=2), "AddBackward0"), (x ** 2, "PowBackward0"),
                    (1 - x, "RsubBackward1")):
        assert y.grad_fn.name() == name and type(y.grad_fn).__name__ == name
        assert repr(y.grad_fn).startswith(f"<{name} object at") and repr(y).endswith(f"grad_fn=<{name}>)")
