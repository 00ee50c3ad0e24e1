"""Hooks on gradients, on nodes, after accumulation and around saved tensors."""

import threading

import numpy as np
import pytest

import facula
from facula.autograd import graph


def draw(*sizes, seed=0, requires_grad=True):
    numbers = np.random.default_rng(seed).standard_normal(sizes)
    return facula.tensor(numbers.tolist(), dtype=facula.float64, requires_grad=requires_grad)


def close(a, b):
    np.testing.assert_allclose(
        np.array(a.tolist()), np.array(b.tolist() if hasattr(b, "tolist") else b), rtol=1e-9, atol=1e-12
    )


def test_hook_sees_and_replaces():
    x = draw(3)
    y = x * 2
    seen = []
    y.register_hook(seen.append)
    y.register_hook(lambda g: g * 10)
    y.register_hook(seen.append)
    y.sum().backward()
    close(seen[0], [1.0] * 3)
    close(seen[1], [10.0] * 3)
    close(x.grad, [20.0] * 3)


def test_hook_on_a_leaf_and_removal():
    x = draw(2)
    handle = x.register_hook(lambda g: g * 5)
    x.sum().backward()
    close(x.grad, [5.0] * 2)
    handle.remove()
    handle.remove()
    x.grad = None
    x.sum().backward()
    close(x.grad, [1.0] * 2)
    with x.register_hook(lambda g: g * 7):
        x.sum().backward()
    close(x.grad, [8.0] * 2)
    x.sum().backward()
    close(x.grad, [9.0] * 2)


def test_handle_outlives_its_tensor():
    x = draw(2)
    handle = (x * 2).register_hook(lambda g: g)
    handle.remove()


def test_hook_that_removes_itself():
    x = draw(2)
    count = []

    def once(grad):
        count.append(1)
        handle.remove()
        return grad * 3

    handle = x.register_hook(once)
    x.sum().backward()
    x.sum().backward()
    assert len(count) == 1
    close(x.grad, [4.0] * 2)


def test_wrong_hooks():
    x = draw(2)
    with pytest.raises(TypeError, match="callable"):
        x.register_hook(3)
    with pytest.raises(RuntimeError, match="doesn't require grad"):
        facula.ones(1).register_hook(lambda g: g)
    x.register_hook(lambda g: "text")
    with pytest.raises(TypeError, match="Tensor or None"):
        x.sum().backward()
    y = draw(2)
    y.register_hook(lambda g: facula.ones(5, dtype=facula.float64))
    with pytest.raises(RuntimeError, match="hook"):
        y.sum().backward()


def test_errors_of_hooks_arrive_as_they_are():
    error = LookupError("hook")

    def fails(grad):
        raise error

    def attempt():
        x = draw(2)
        y = x * 2
        y.register_hook(fails)
        with pytest.raises(LookupError) as caught:
            y.sum().backward()
        assert caught.value is error
        assert x.grad is None
        done.append(True)

    done = []
    attempt()
    worker = threading.Thread(target=attempt)
    worker.start()
    worker.join()
    assert done == [True, True]


def test_hooks_of_second_order_are_recorded():
    x = draw(3)
    y = x**2
    y.register_hook(lambda g: g * x)
    (first,) = facula.autograd.grad(y.sum(), x, create_graph=True)
    close(first.detach(), 2 * x.detach() ** 2)
    close(facula.autograd.grad(first.sum(), x)[0], 4 * x.detach())


def test_hook_after_accumulation():
    x = draw(2)
    seen = []

    def step(leaf):
        assert leaf is x
        seen.append(leaf.grad.clone())
        leaf.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 3).sum().backward()
    assert x.grad is None
    close(seen[0], [3.0] * 2)
    handle.remove()
    (x * 3).sum().backward()
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).register_post_accumulate_grad_hook(step)
    y = draw(1)
    y.register_post_accumulate_grad_hook(lambda leaf: 3)
    with pytest.raises(RuntimeError, match="None"):
        y.sum().backward()


def test_node_hooks():
    x = draw(2)
    y = (x * 2).sum()
    calls = []

    def after(grad_inputs, grad_outputs):
        calls.append((grad_inputs, grad_outputs))
        return (grad_inputs[0] * 10,)

    node = y.grad_fn
    handle = node.register_hook(after)
    node.register_prehook(lambda grads: (grads[0] * 3,))
    y.backward(retain_graph=True)
    close(x.grad, [60.0] * 2)
    close(calls[0][1][0], 3.0)
    handle.remove()
    x.grad = None
    y.backward()
    close(x.grad, [6.0] * 2)


def test_node_hooks_errors():
    x = draw(2)
    y = x.sum()
    y.grad_fn.register_prehook(lambda grads: 3)
    with pytest.raises(TypeError, match="tuple"):
        y.backward()
    y = x.sum()
    y.grad_fn.register_hook(lambda a, b: (None, None, None))
    with pytest.raises(RuntimeError):
        y.backward()


def test_nodes():
    x = draw(2)
    y = (x * x).sum()
    node = y.grad_fn
    assert node.name() == "SumBackward0" and repr(node).startswith("<SumBackward0 object at 0x")
    ((mul, number),) = node.next_functions
    assert mul.name() == "MulBackward0" and number == 0
    leaf = mul.next_functions[0][0]
    assert leaf is mul.next_functions[1][0] and leaf.name() == "AccumulateGrad" and leaf.next_functions == ()
    assert isinstance(node, graph.Node) and type(node) is not type(mul)
    node.metadata["note"] = 3
    assert y.grad_fn.metadata == {"note": 3}
    node.mark = "x"
    assert y.grad_fn.mark == "x"
    del y
    close(mul(facula.ones(2, dtype=facula.float64))[0], x.detach())
    edge = graph.get_gradient_edge(x)
    assert edge.node is leaf and edge.output_nr == 0
    with pytest.raises(RuntimeError):
        graph.get_gradient_edge(facula.ones(1))
    with pytest.raises(TypeError):
        type(node)()


def test_saved_tensor_hooks():
    x = draw(4)
    packed = []

    def pack(t):
        packed.append(t)
        return t.tolist()

    def unpack(numbers):
        return facula.tensor(numbers, dtype=facula.float64)

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x.sin() * x).sum()
    assert len(packed) == 3
    (x * 1).exp()
    assert len(packed) == 3
    y.backward()
    close(x.grad, x.detach().cos() * x.detach() + x.detach().sin())


def test_saved_tensor_hooks_nest_and_fail():
    x = draw(2)
    order = []
    with graph.saved_tensors_hooks(lambda t: (order.append("outer"), t)[1], lambda t: t):
        with graph.saved_tensors_hooks(lambda t: (order.append("inner"), t)[1], lambda t: t):
            x.sin()
        x.sin()
    assert order == ["inner", "outer"]

    def fails(t):
        raise KeyError("pack")

    with pytest.raises(KeyError, match="pack"), graph.saved_tensors_hooks(fails, lambda t: t):
        x.sin()
    assert facula.is_grad_enabled()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.sin().sum()
    with pytest.raises(TypeError, match="unpack"):
        y.backward()
    with pytest.raises(RuntimeError, match="in place"), graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        (x * 1).sin()
    with pytest.raises(TypeError):
        graph.saved_tensors_hooks(3, 4)


def test_saved_tensor_hooks_of_custom_functions():
    class Cube(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    x = draw(2)
    with graph.saved_tensors_hooks(lambda t: t.tolist(), lambda n: facula.tensor(n, dtype=facula.float64)):
        y = Cube.apply(x)
    y.sum().backward()
    close(x.grad, 3 * x.detach() ** 2)


def test_save_on_cpu_and_disabling():
    x = draw(3)
    with graph.save_on_cpu():
        y = x.exp().sum()
    y.backward()
    close(x.grad, x.detach().exp())
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), graph.save_on_cpu():
            pass
    with graph.save_on_cpu():
        with pytest.raises(RuntimeError, match="not here"), graph.disable_saved_tensors_hooks("not here"):
            pass


def test_multi_grad_hook():
    a, b, c = draw(2), draw(2, seed=1), draw(2, seed=2)
    calls = []
    handle = graph.register_multi_grad_hook([a, b], calls.append)
    (a * b).sum().backward()
    (a * c).sum().backward()
    assert len(calls) == 1
    close(calls[0][0], b.detach())
    close(calls[0][1], a.detach())
    handle.remove()
    (a * b).sum().backward()
    assert len(calls) == 1
    some = []
    graph.register_multi_grad_hook([a, b], some.append, mode="any")
    (a * b).sum().backward()
    assert len(some) == 1
    with pytest.raises(ValueError):
        graph.register_multi_grad_hook([a], print, mode="none")


def test_increment_version():
    x = draw(2)
    y = x.exp()
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="modified"):
        y.sum().backward()


def test_hooks_in_threads():
    x = draw(4)
    count = []
    lock = threading.Lock()

    def hook(grad):
        with lock:
            count.append(1)
        return grad * 2

    x.register_hook(hook)
    found = []

    def work():
        for _ in range(25):
            found.append(facula.autograd.grad((x * 3).sum(), x)[0])

    workers = [threading.Thread(target=work) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert len(count) == 100
    for each in found:
        close(each, [6.0] * 4)
