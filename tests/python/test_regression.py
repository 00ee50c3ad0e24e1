"""Faults that were found once: each test fails when its fault comes back."""
import copy
import inspect
import pickle
import re
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import facula
from seed import SEED


def generator():
    return np.random.default_rng(SEED)


def run_alone(program):
    """Runs a program in a process of its own, which may die."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


# ---- What ops write into.


@pytest.mark.parametrize("name", ["abs_", "neg_", "zero_", "exp_", "sqrt_"])
def test_functions_in_place_take_no_arrays(name):
    array = generator().standard_normal(5)
    before = array.copy()
    with pytest.raises(TypeError, match="Tensor"):
        getattr(facula, name)(array)
    np.testing.assert_array_equal(array, before)


def test_functions_in_place_with_two_operands_take_no_arrays_first():
    array = np.ones(3)
    for function in (facula.add_, facula.mul_):
        with pytest.raises(TypeError):
            function(array, facula.ones(3))
        with pytest.raises(TypeError):
            function(array, 2)
    x = facula.ones(3, dtype=facula.float64)
    assert facula.add_(x, array) is x
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_out_takes_no_arrays():
    with pytest.raises(TypeError):
        facula.add(facula.ones(2), facula.ones(2), out=np.ones(2, np.float32))


@pytest.mark.parametrize("outs", [
    lambda v, i: (v,), lambda v, i: (v, i, i), lambda v, i: (), lambda v, i: v, lambda v, i: (v, None),
    lambda v, i: (np.empty(3), np.empty(3, np.int64)), lambda v, i: (v, np.empty(3, np.int64)), lambda v, i: [v, 3],
])
def test_tuples_of_out_are_checked(outs):
    x = facula.tensor(generator().standard_normal((4, 3)))
    values, indices = facula.empty(3, dtype=facula.float64), facula.empty(3, dtype=facula.int64)
    with pytest.raises(TypeError, match="out|invalid combination"):
        facula.max(x, 0, out=outs(values, indices))


@pytest.mark.parametrize("kind", [tuple, list])
def test_tuples_of_out_are_written(kind):
    array = generator().standard_normal((4, 3))
    values, indices = facula.empty(3, dtype=facula.float64), facula.empty(3, dtype=facula.int64)
    made = facula.max(facula.tensor(array), 0, out=kind((values, indices)))
    assert made.values is values and made.indices is indices
    np.testing.assert_array_equal(values.numpy(), array.max(0))
    np.testing.assert_array_equal(indices.numpy(), array.argmax(0))


def test_a_list_of_out_may_change_meanwhile():
    x = facula.tensor(generator().standard_normal((64, 512)))
    outs, ended = [], threading.Event()

    def change():
        while not ended.is_set():
            outs.clear()
            outs.extend((facula.empty(512, dtype=facula.float64), facula.empty(512, dtype=facula.int64)))

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(200):
            try:
                facula.max(x, 0, out=outs)
            except (TypeError, RuntimeError):
                pass
    finally:
        ended.set()
        other.join()


# ---- The end of the process.


@pytest.mark.parametrize("work", [
    "x.mul(2)", "x + x", "x.max(0)", "x.detach().requires_grad_().sum().backward()", "hooked()"])
def test_daemon_threads_at_exit(work):
    code, said = run_alone(f"""
        import threading, time
        import facula

        x = facula.ones(200, 200)

        def hooked():
            y = facula.ones(200, 200, requires_grad=True)
            y.register_hook(lambda g: g * 2)
            y.sum().backward()

        def work():
            while True:
                {work}

        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        print("end")
    """)
    assert (code, said) == (0, "end\n")


def test_the_ending_thread_still_works():
    code, said = run_alone("""
        import facula

        class Late:
            def __init__(self):
                self.x = facula.ones(100, 100)
            def __del__(self):
                print(int((self.x + 1).sum()))

        import builtins
        builtins.late = Late()
    """)
    assert code == 0 and said in ("20000\n", "")


def test_arrays_are_let_go_of_by_other_threads():
    code, said = run_alone("""
        import gc, sys, threading
        import numpy as np
        import facula

        array = np.ones(5000)
        before = sys.getrefcount(array)
        held = [facula.from_numpy(array) for _ in range(50)]

        def drop():
            while held:
                held.pop()

        threads = [threading.Thread(target=drop) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        x = facula.ones(5000, dtype=facula.float64, requires_grad=True)
        for _ in range(20):
            (x.detach() * facula.from_numpy(array)).sum()
        gc.collect()
        for _ in range(1000):
            pass
        assert sys.getrefcount(array) == before, (sys.getrefcount(array), before)
    """)
    assert code == 0, said


# ---- Values that were never made.


@pytest.mark.parametrize("use", [
    lambda: facula.zeros(2, dtype=facula.dtype.__new__(facula.dtype)),
    lambda: facula.zeros(2, device=facula.device.__new__(facula.device)),
    lambda: facula.zeros(2).to(facula.dtype.__new__(facula.dtype)),
    lambda: facula.zeros(2).contiguous(memory_format=facula.memory_format.__new__(facula.memory_format)),
    lambda: facula.rand(2, generator=facula.Generator.__new__(facula.Generator)),
])
def test_values_that_were_never_made(use):
    with pytest.raises(TypeError, match="initiali"):
        use()


# ---- Arrays as operands.


@pytest.mark.parametrize("product", [
    lambda x, a: x * a, lambda x, a: a * x, lambda x, a: facula.mul(x, a), lambda x, a: x.mul(a),
    lambda x, a: facula.einsum("i,i->i", x, facula.tensor(a)), lambda x, a: (x + 0).mul_(a),
    lambda x, a: (lambda y: y.__imul__(a))(x + 0),
])
def test_gradients_know_what_arrays_were(product):
    r = generator()
    a, start = r.standard_normal(6), r.standard_normal(6)
    x, was = facula.tensor(start, requires_grad=True), a.copy()
    y = product(x, a).sum()
    a[:] = 100
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), was)


def test_arrays_are_shared_where_nothing_is_recorded():
    a = np.ones(4)
    with facula.no_grad():
        x = facula.ones(4, dtype=facula.float64, requires_grad=True)
        assert (x * a).tolist() == [1.0] * 4


# ---- Results with names.


def test_named_results_pickle_and_copy():
    x = facula.tensor(generator().standard_normal((4, 3)))
    for made in (x.max(0), x.sort(1), x.topk(2), facula.aminmax(x), x.median(0)):
        for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
            assert type(other) is type(made)
            assert all(facula.equal(a, b) for a, b in zip(made, other))
        assert getattr(facula.return_types, type(made).__name__) is type(made)
        assert type(made).__module__ == "facula.return_types"


def test_named_results_are_found_in_a_fresh_process():
    data = pickle.dumps(facula.tensor([[1.0, 5.0], [7.0, 2.0]]).max(0))
    code, said = run_alone(
        f"import pickle\nmade = pickle.loads({data!r})\nprint(made.values.tolist(), made.indices.tolist())")
    assert (code, said) == (0, "[7.0, 5.0] [1, 0]\n")


def test_named_results_print_a_member_a_line():
    made = facula.tensor([[1.0, 5.0], [7.0, 2.0]]).max(0)
    assert repr(made) == "facula.return_types.max(\nvalues=tensor([7., 5.]),\nindices=tensor([1, 0]))"


def test_named_results_in_trees():
    from facula.utils import _pytree

    array = generator().standard_normal((5, 4))
    made = facula.vmap(lambda v: v.max(0))(facula.tensor(array))
    assert type(made) is facula.return_types.max
    np.testing.assert_array_equal(made.values.numpy(), array.max(1))
    np.testing.assert_array_equal(made.indices.numpy(), array.argmax(1))
    doubled = _pytree.tree_map(lambda t: t * 2, [made])
    assert type(doubled[0]) is facula.return_types.max
    np.testing.assert_array_equal(doubled[0].values.numpy(), array.max(1) * 2)


# ---- Errors.


@pytest.mark.parametrize("name", ["Error", "ShapeError", "DTypeError", "DeviceError", "OutOfMemoryError",
                                  "NotSupportedError", "FormatError", "InternalError", "ArgumentError",
                                  "NanError"])
def test_errors_pickle(name):
    kind = getattr(facula, name)
    assert (kind.__name__, kind.__module__) == (name, "facula")
    again = pickle.loads(pickle.dumps(kind("text")))
    assert type(again) is kind and str(again) == "text"


def test_the_error_of_values():
    with pytest.raises(facula.ArgumentError) as caught:
        facula.device("cuda", 500)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, RuntimeError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), facula.ArgumentError)


# ---- Generators.


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_generators_copy(again):
    g = facula.Generator().manual_seed(int(generator().integers(1000)))
    facula.rand(3, generator=g)
    other = again(g)
    assert other is not g and other.initial_seed() == g.initial_seed()
    expected = facula.rand(50, generator=g)
    assert facula.equal(facula.rand(50, generator=other), expected)


# ---- Arguments of the wrong kind.


@pytest.mark.parametrize("use, text", [
    (lambda: facula.Generator().manual_seed("x"), "must be int, not str"),
    (lambda: facula.manual_seed("x"), "must be int, not str"),
    (lambda: facula.manual_seed(), "missing 1 required positional argument"),
    (lambda: facula.Generator().manual_seed(), "missing 1 required positional argument"),
    (lambda: facula.tensor(), "missing 1 required positional argument"),
    (lambda: facula.tensor([1], 2), "takes 1 positional argument"),
    (lambda: facula.tensor([1], colour=2), "unexpected keyword argument 'colour'"),
    (lambda: facula.device(), "missing 1 required positional argument"),
    (lambda: facula.device(1.5), "facula.device"),
    (lambda: facula.device("cuda", "x"), "must be int, not str"),
    (lambda: facula.device(3, 4), "must be str, not int"),
    (lambda: int(facula.tensor(1 + 2j)), "complex"),
    (lambda: float(facula.tensor(1 + 2j)), "complex"),
])
def test_wrong_arguments_are_type_errors(use, text):
    with pytest.raises(TypeError, match=text) as caught:
        use()
    assert "incompatible function arguments" not in str(caught.value)


def test_indices_of_devices_are_checked():
    for index in (300, -1, 128):
        with pytest.raises(ValueError, match="out of range"):
            facula.ones(2).cuda(index)


def test_large_unsigned_numbers_are_indices():
    x = facula.tensor(2**64 - 1, dtype=facula.uint64)
    assert x.__index__() == 2**64 - 1 and int(x) == 2**64 - 1
    assert hex(x) == hex(2**64 - 1)


# ---- What help() and inspect see.


def test_types_are_in_the_package():
    for kind in (facula.dtype, facula.device, facula.layout, facula.memory_format, facula.Generator, facula.Tensor,
                 facula.Size):
        assert kind.__module__ == "facula", kind
        assert pickle.loads(pickle.dumps(kind)) is kind
    for value in (facula.float32, facula.device("cpu"), facula.strided, facula.channels_last):
        assert pickle.loads(pickle.dumps(value)) == value
        assert b"_native" not in pickle.dumps(value)


def test_nothing_leaks():
    assert "annotations" not in dir(facula)


def test_methods_document_themselves_as_methods():
    assert "input" not in facula.Tensor.add.__doc__.split("\n\n")[0]
    assert "out=" not in facula.Tensor.max.__doc__.split("\n\n")[0]
    assert "add(input, other" in facula.add.__doc__
    assert facula.Tensor.abs_.__doc__ and facula.Tensor.is_cpu.__doc__
    undocumented = [n for n, v in vars(facula.Tensor).items() if inspect.isgetsetdescriptor(v) and not v.__doc__
                    and not n.startswith("__")]
    assert undocumented == []


def test_ops_of_one_form_have_signatures():
    assert str(inspect.signature(facula.abs)) == "(input, *, out=None)"
    assert str(inspect.signature(facula.tensor)) == (
        "(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)")
    assert list(inspect.signature(facula.Tensor.abs).parameters) == ["self"]
    assert str(inspect.signature(facula.ones(1).tril)) == "(diagonal=0)"


# ---- Texts that are read in both languages.


def test_errors_speak_no_cpp():
    """A name of C++ stands in brackets behind the one that Python has, or not at all."""
    x = facula.ones(3, requires_grad=True)
    y = x.exp()

    def written():
        z = x.exp()
        z += 1
        z.sum().backward()

    def twice():
        y.sum().backward()
        y.sum().backward()

    wrong = [
        written, twice, lambda: x.add_(1), lambda: x[0].zero_(), lambda: facula.arange(3).requires_grad_(),
        lambda: facula.arange(3).mean(), lambda: facula.arange(3).std(), lambda: facula.ones(3)[facula.ones(1)],
        lambda: facula.ones(3).masked_fill(facula.ones(3), 1), lambda: facula.ones(3).sum().backward(),
        lambda: facula.autograd.grad(x.sum(), facula.ones(1, requires_grad=True)),
        lambda: facula.exp(x, out=facula.ones(3)), lambda: facula.ones(3).index_select(0, facula.ones(1)),
        lambda: facula.cdist(facula.ones(2, 2).long(), facula.ones(2, 2).long()), lambda: facula.arange(3).norm(),
    ]
    for call in wrong:
        with pytest.raises(Exception) as caught:
            call()
        text = str(caught.value).replace("(NoGradGuard)", "")
        assert not re.search(r"\bk[A-Z][a-z]+\b|=true|=false|::|Guard", text), text


@pytest.mark.parametrize("info", [facula.finfo, facula.iinfo])
@pytest.mark.parametrize("given", [3, "float32", np.float32(1)])
def test_limits_of_what_is_no_dtype(info, given):
    with pytest.raises(TypeError, match=rf"{info.__name__}\(\): expected a facula.dtype, got"):
        info(given)


# ---- Sizes beyond 64 bits.


@pytest.mark.parametrize("call, text", [
    (lambda: facula.as_strided(facula.ones(4), (2 ** 62,), (0,)), "as_strided: the number of bytes"),
    (lambda: facula.nn.functional.pad(facula.ones(3), (2 ** 62, 2 ** 62)), "with padding .* overflows 64 bits"),
    (lambda: facula.nn.functional.pad(facula.ones(3), (2 ** 63 - 1, 2 ** 63 - 1)), "overflows 64 bits"),
    (lambda: facula.nn.functional.pad(facula.ones(3), (-2, -2)), "resulted in a negative output size"),
])
def test_sizes_that_cannot_be(call, text):
    with pytest.raises(facula.ShapeError, match=text):
        call()


def test_block_diag_of_nothing():
    assert facula.block_diag().shape == (1, 0)


@pytest.mark.parametrize("op, call", [("", facula.tensor), ("zeros: ", facula.zeros),
                                      ("randint: ", lambda n: facula.randint(n, (2,))),
                                      ("add: ", lambda n: facula.ones(2).add(n)), ("", lambda n: facula.ones(2) + n)])
def test_integers_that_do_not_fit_are_shown(op, call):
    with pytest.raises(ValueError, match=f"^{op}the integer {2 ** 70} does not fit 64 bits"):
        call(2 ** 70)
    with pytest.raises(ValueError, match="the integer does not fit 64 bits"):
        call(10 ** 5000)
