"""Nothing that leads back to itself through the tape stays alive, and nothing that is in use goes."""

import gc
import sys
import threading
import weakref

import pytest

import facula
from facula.autograd import Function


class Mark:
    """Something whose end can be seen."""


@pytest.fixture(autouse=True)
def collected():
    gc.collect()
    yield
    gc.collect()


def gone(reference):
    gc.collect()
    return reference() is None


def collect():
    """A circle that hangs on another one's graph goes after that one has gone."""
    for _ in range(4):
        gc.collect()


def count_tensors():
    collect()
    return sum(type(each) is facula.Tensor for each in gc.get_objects())


def test_leaf_whose_hook_holds_it():
    x = facula.ones(2, requires_grad=True)
    mark = Mark()
    x.register_hook(lambda g, m=mark: g * x.sum().item())
    watch, mark_watch = weakref.ref(x), weakref.ref(mark)
    x.sum().backward()
    del mark
    gc.collect()
    assert watch() is not None and mark_watch() is not None
    del x
    assert gone(watch) and gone(mark_watch)


def test_result_whose_hook_holds_it():
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: y + g)
    watch = weakref.ref(y)
    y.sum().backward()
    del y
    assert gone(watch)


def test_hook_is_kept_by_the_graph():
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    calls = []

    def hook(grad, keep=y):
        calls.append(keep is not None)

    y.register_hook(hook)
    z = y.sum()
    del y, hook
    gc.collect()
    z.backward()
    assert calls == [True]


def test_leaf_is_kept_by_the_graph_with_its_hook():
    calls = []

    def make():
        x = facula.ones(2, requires_grad=True)
        x.register_hook(lambda g: calls.append(x.shape))
        return (x * 2).sum()

    z = make()
    gc.collect()
    z.backward()
    assert len(calls) == 1


def test_hook_after_accumulation_that_holds_its_leaf():
    x = facula.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: x.sum() and None)
    watch = weakref.ref(x)
    (x * 2).sum().backward()
    del x
    assert gone(watch)


def test_node_hooks_that_hold_the_result():
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    y.grad_fn.register_hook(lambda a, b: (y.shape, None)[1])
    y.grad_fn.register_prehook(lambda a: (y.shape, None)[1])
    watch = weakref.ref(y)
    del y
    assert gone(watch)


def test_node_that_its_hook_holds():
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    node = y.grad_fn
    node.register_hook(lambda a, b: (node.name(), None)[1])
    watch = weakref.ref(node)
    del y, node
    assert gone(watch)


def test_removed_hooks_let_go():
    x = facula.ones(2, requires_grad=True)
    mark = Mark()
    handle = x.register_hook(lambda g, m=mark: None)
    watch = weakref.ref(mark)
    del mark
    assert watch() is not None
    handle.remove()
    assert watch() is None


class Keeps(Function):
    @staticmethod
    def forward(ctx, x, mark):
        y = x * 2
        ctx.y = y
        ctx.mark = mark
        return y

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


def test_context_that_holds_its_output():
    x = facula.ones(2, requires_grad=True)
    mark = Mark()
    y = Keeps.apply(x, mark)
    watch, mark_watch = weakref.ref(y), weakref.ref(mark)
    assert y.grad_fn.y is y
    y.sum().backward()
    del y, mark
    assert gone(watch) and gone(mark_watch)


def test_context_in_use_stays():
    x = facula.ones(2, requires_grad=True)
    z = Keeps.apply(x, Mark()).sum()
    gc.collect()
    assert isinstance(z.grad_fn.next_functions[0][0].mark, Mark)
    z.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_context_goes_with_the_graph():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x, mark):
            ctx.mark = mark
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    x = facula.ones(2, requires_grad=True)
    mark = Mark()
    y = Plain.apply(x, mark).sum()
    watch = weakref.ref(mark)
    del mark
    gc.disable()
    try:
        y.backward()
        del y
        assert watch() is None, "no circle, so no garbage collection is needed"
        with facula.no_grad():
            mark = Mark()
            Plain.apply(x, mark)
            watch = weakref.ref(mark)
            del mark
        assert watch() is None
    finally:
        gc.enable()


def test_node_without_its_graph():
    x = facula.ones(2, requires_grad=True)
    y = Keeps.apply(x, None)
    context = y.grad_fn
    del y, context.y
    with pytest.raises(RuntimeError, match="gone"):
        context.next_functions
    with pytest.raises(RuntimeError, match="freed"):
        context.saved_tensors


def test_saved_hooks_let_go():
    x = facula.ones(2, requires_grad=True)
    mark = Mark()
    with facula.autograd.graph.saved_tensors_hooks(lambda t, m=mark: (m, t), lambda p: p[1]):
        y = x.sin().sum()
    watch = weakref.ref(mark)
    del mark
    assert not gone(watch)
    y.backward()
    del y
    assert gone(watch)


def test_nothing_adds_up():
    def step(i):
        x = facula.ones(4, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: (y, g)[1])
        x.register_hook(lambda g: (x, g)[1])
        x.register_post_accumulate_grad_hook(lambda leaf: (x, None)[1])
        z = Keeps.apply(y, Mark())
        z.grad_fn.register_prehook(lambda g: (z, None)[1])
        if i % 2:
            z.sum().backward()
        facula.func.vmap(facula.func.grad(lambda t: (t * t).sum()))(facula.ones(2, 3))
        facula.func.jvp(lambda t: t.sin(), (facula.ones(2),), (facula.ones(2),))

    for i in range(5):
        step(i)
    tensors = count_tensors()
    marks = sum(isinstance(each, Mark) for each in gc.get_objects())
    for i in range(200):
        step(i)
    assert count_tensors() <= tensors
    assert sum(isinstance(each, Mark) for each in gc.get_objects()) <= marks
    before = sys.getallocatedblocks()
    for i in range(200):
        step(i)
    collect()
    blocks = sys.getallocatedblocks() - before
    assert blocks < 500, blocks


def test_errors_let_go():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x, mark):
            ctx.mark = mark
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise KeyError("x")

    x = facula.ones(2, requires_grad=True)
    mark = Mark()
    watch = weakref.ref(mark)
    try:
        Fails.apply(x, mark).sum().backward()
    except KeyError:
        pass
    del mark
    assert gone(watch)


def test_references_end_in_threads_without_the_lock():
    """The engine frees a graph while it has no lock; what hooks held must go all the same."""
    watches = []

    def work():
        for _ in range(50):
            mark = Mark()
            watches.append(weakref.ref(mark))
            x = facula.ones(64, requires_grad=True)
            y = x * 2
            y.register_hook(lambda g, m=mark: None)
            with facula.autograd.graph.saved_tensors_hooks(lambda t, m=mark: (m, t), lambda p: p[1]):
                z = y.sin().sum()
            z.backward()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    gc.collect()
    assert sum(w() is not None for w in watches) == 0


def test_collection_while_threads_compute():
    stop = threading.Event()
    errors = []

    def work():
        try:
            while not stop.is_set():
                x = facula.ones(8, requires_grad=True)
                y = x * 2
                y.register_hook(lambda g: (y, g * 2)[1])
                z = Keeps.apply(y, Mark())
                z.sum().backward()
                assert x.grad.tolist() == [8.0] * 8
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for each in workers:
        each.start()
    for _ in range(25):
        gc.collect()
    stop.set()
    for each in workers:
        each.join()
    assert not errors
