"""Custom functions: contexts, gradients, errors, forward mode, second order."""

import threading
import traceback

import numpy as np
import pytest

import facula
from facula.autograd import Function, grad, gradcheck, gradgradcheck
from facula.autograd import forward_ad as fwd
from facula.autograd.function import FunctionCtx, once_differentiable


def draw(*sizes, seed=0, requires_grad=True):
    numbers = np.random.default_rng(seed).standard_normal(sizes)
    return facula.tensor(numbers.tolist(), dtype=facula.float64, requires_grad=requires_grad)


def close(a, b):
    np.testing.assert_allclose(
        np.array(a.tolist()), np.array(b.tolist() if hasattr(b, "tolist") else b), rtol=1e-9, atol=1e-12
    )


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class Scale(Function):
    """The newer form: forward without a context."""

    @staticmethod
    def forward(x, factor, label=None):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, factor, *_ = inputs
        ctx.save_for_backward(x, output)
        ctx.factor = factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None, None


def test_values_and_names():
    x = draw(4)
    y = Cube.apply(x)
    close(y, x.detach() ** 3)
    assert type(y.grad_fn).__name__ == "CubeBackward" and y.grad_fn.name() == "CubeBackward"
    assert repr(y.grad_fn).startswith("<CubeBackward object at 0x")
    assert isinstance(y.grad_fn, FunctionCtx) and isinstance(y.grad_fn, facula.autograd.graph.Node)
    assert y.grad_fn is y.grad_fn
    assert y.grad_fn.next_functions[0][0].name() == "AccumulateGrad"
    close(y.grad_fn.saved_tensors[0], x.detach())
    y.sum().backward()
    close(x.grad, 3 * x.detach() ** 2)
    assert gradcheck(Cube.apply, draw(3, seed=1)) and gradgradcheck(Cube.apply, draw(3, seed=2))


def test_setup_context_and_arguments_that_are_no_tensors():
    x = draw(3)
    y = Scale.apply(x, 2.5, "label")
    y.sum().backward()
    close(x.grad, [2.5] * 3)
    assert y.grad_fn.factor == 2.5 and y.grad_fn.needs_input_grad == (True, False, False)


def test_needs_input_grad_and_none():
    seen = []

    class Mul(Function):
        @staticmethod
        def forward(ctx, a, b):
            seen.append(ctx.needs_input_grad)
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            a, b = ctx.saved_tensors
            return (g * b if ctx.needs_input_grad[0] else None), (g * a if ctx.needs_input_grad[1] else None)

    a, b = draw(2), draw(2, seed=1, requires_grad=False)
    Mul.apply(a, b).sum().backward()
    close(a.grad, b)
    assert seen == [(True, False), (True, False)]
    c, d = draw(2), draw(2, seed=1)
    seen.clear()
    close(grad(Mul.apply(c, d).sum(), c)[0], d.detach())
    assert seen[1] == (True, False), "only what was asked for is wanted"


def test_several_outputs_and_materialized_gradients():
    class Split(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x[:1] * 2, "between", x[1:] * 3

        @staticmethod
        def backward(ctx, a, text, b):
            assert text is None
            Split.came = (a, b)
            zero = facula.zeros(1, dtype=facula.float64)
            return facula.cat([zero if a is None else a * 2, zero if b is None else b * 3]), None

    x = draw(2)
    a, text, b = Split.apply(x, True)
    assert text == "between" and a.grad_fn is b.grad_fn and (a.output_nr, b.output_nr) == (0, 1)
    (a.sum() + b.sum()).backward()
    close(x.grad, [2.0, 3.0])
    x.grad = None
    Split.apply(x, True)[0].sum().backward()
    close(Split.came[1], [0.0])
    close(x.grad, [2.0, 0.0])
    x.grad = None
    Split.apply(x, False)[0].sum().backward()
    assert Split.came[1] is None
    close(x.grad, [2.0, 0.0])


def test_wrong_gradients_are_errors():
    def returning(*grads):
        class F(Function):
            @staticmethod
            def forward(ctx, x, k):
                return x * k

            @staticmethod
            def backward(ctx, g):
                return tuple(g if each == "g" else each for each in grads)

        return F.apply(draw(2), 3).sum()

    with pytest.raises(
        RuntimeError, match=r"FBackward returned an incorrect number of gradients \(expected 2, got 1\)"
    ):
        returning("g").backward()
    with pytest.raises(RuntimeError, match=r"expected 2, got 3"):
        returning("g", None, "g").backward()
    returning("g", None, None).backward()
    with pytest.raises(RuntimeError, match="different from None at position 2"):
        returning("g", "g").backward()
    with pytest.raises(TypeError, match="expected Tensor or None"):
        returning(3, None).backward()
    with pytest.raises(RuntimeError, match="shape"):
        returning(facula.ones(5, dtype=facula.float64), None).backward()


def test_misuse_is_an_error():
    class Nothing(Function):
        pass

    with pytest.raises(NotImplementedError, match="forward"):
        Nothing.apply(draw(1))

    class OnlyForward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="backward"):
        OnlyForward.apply(draw(1)).sum().backward()
    with pytest.raises(RuntimeError, match="apply"):
        OnlyForward()

    class GivesList(Function):
        @staticmethod
        def forward(ctx, x):
            return [x]

    with pytest.raises(TypeError, match="tuple of Tensor"):
        GivesList.apply(draw(1))
    with pytest.raises(TypeError):
        Cube.apply(draw(1), x=1)

    class SavesText(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward("text")
            return x

    with pytest.raises(TypeError, match="save_for_backward"):
        SavesText.apply(draw(1))


def test_errors_keep_their_object_and_their_traceback():
    class Oops(Exception):
        pass

    thrown = Oops("from backward")

    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise thrown

    def attempt():
        with pytest.raises(Oops) as caught:
            (Fails.apply(draw(3)) * 2).sum().backward()
        assert caught.value is thrown
        names = [frame.name for frame in traceback.extract_tb(caught.tb)]
        assert names[-1] == "backward" and "attempt" in names
        found.append(True)

    found = []
    attempt()
    worker = threading.Thread(target=attempt)
    worker.start()
    worker.join()
    assert found == [True, True]


def test_errors_of_forward():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            raise KeyError("forward")

    with pytest.raises(KeyError, match="forward"):
        Fails.apply(draw(1))
    assert facula.is_grad_enabled()


def test_mark_dirty():
    class AddOne(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    x = draw(3)
    y = x * 1
    z = AddOne.apply(y)
    assert z is y and y.grad_fn.name() == "AddOneBackward"
    z.sum().backward()
    close(x.grad, [10.0] * 3)
    with pytest.raises(RuntimeError, match="leaf"):
        AddOne.apply(draw(3))


def test_mark_non_differentiable():
    class Sorted(Function):
        @staticmethod
        def forward(ctx, x):
            copy = x.clone()
            order = x.argsort()
            ctx.mark_non_differentiable(copy)
            return x * 2, order, copy

        @staticmethod
        def backward(ctx, g, *_):
            return g * 2

    x = draw(3)
    a, order, copy = Sorted.apply(x)
    assert a.requires_grad and not order.requires_grad and not copy.requires_grad
    a.sum().backward()
    close(x.grad, [2.0] * 3)


def test_input_given_back():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = draw(2)
    y = Same.apply(x)
    assert y is not x and y.grad_fn.name() == "SameBackward" and x.is_leaf
    y.sum().backward()
    close(x.grad, [7.0] * 2)


def test_without_grad_nothing_is_recorded():
    with facula.no_grad():
        y = Cube.apply(draw(2))
    assert y.grad_fn is None
    assert Cube.apply(draw(2, requires_grad=False)).grad_fn is None


def test_nothing_is_recorded_inside_of_forward():
    modes = []

    class Looks(Function):
        @staticmethod
        def forward(ctx, x):
            modes.append(facula.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            modes.append(facula.is_grad_enabled())
            return g * 2

    x = draw(1)
    Looks.apply(x).sum().backward()
    grad(Looks.apply(x).sum(), x, create_graph=True)
    assert modes == [False, False, False, True]


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = draw(2)
    close(grad(Once.apply(x).sum(), x)[0], 2 * x.detach())
    y = Once.apply(x)
    (first,) = grad((y * y).sum(), x, create_graph=True)
    close(first, 4 * x.detach() ** 3)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_saved_tensors_are_freed_and_checked():
    x = draw(2)
    y = Cube.apply(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    z = x * 1
    y = Cube.apply(z)
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


def test_forward_mode_with_jvp():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            ctx.k = k
            return x * x * k

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x * ctx.k, None

        @staticmethod
        def jvp(ctx, t, k):
            assert k is None
            (x,) = ctx.saved_tensors
            return 2 * x * t * ctx.k + 100  # so that it shows who computed it

    x, t = draw(3, requires_grad=False), draw(3, seed=4, requires_grad=False)
    with fwd.dual_level():
        value, tangent = fwd.unpack_dual(Twice.apply(fwd.make_dual(x, t), 3.0))
    close(value, 3 * x * x)
    close(tangent, 6 * x * t + 100)
    value, tangent = facula.func.jvp(lambda a: Twice.apply(a, 3.0), (x,), (t,))
    close(tangent, 6 * x * t + 100)


def test_vjp_is_another_name_of_backward():
    class Named(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    x = draw(2)
    Named.apply(x).sum().backward()
    close(x.grad, [2.0] * 2)


def test_inside_of_transforms():
    x = draw(4, requires_grad=False)
    close(facula.func.grad(lambda t: Cube.apply(t).sum())(x), 3 * x * x)
    close(facula.func.vmap(Cube.apply)(x), x**3)
    close(facula.func.vmap(facula.func.grad(lambda t: Cube.apply(t)))(x), 3 * x * x)


def test_inheritance():
    class Derived(Cube):
        @staticmethod
        def backward(ctx, g):
            return Cube.backward(ctx, g) * 2

    x = draw(2)
    y = Derived.apply(x)
    assert y.grad_fn.name() == "DerivedBackward"
    y.sum().backward()
    close(x.grad, 6 * x.detach() ** 2)


def test_many_threads():
    errors = []

    def work(seed):
        try:
            for _ in range(50):
                x = draw(16, seed=seed)
                Cube.apply(Scale.apply(x, 2.0)).sum().backward()
                close(x.grad, 24 * x.detach() ** 2)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert not errors


def test_a_backward_inside_of_backward():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with facula.enable_grad():
                leaf = x.detach().requires_grad_()
                (inner,) = grad((leaf**2).sum(), leaf)
            return g * inner

    x = draw(3)
    Inner.apply(x).sum().backward()
    close(x.grad, 2 * x.detach())
