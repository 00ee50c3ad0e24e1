"""Autocast and gradient scaling."""

import math

import numpy as np
import pytest
import seed

import facula
from facula import amp, optim

try:
    import torch
except ImportError:
    torch = None

BF16, F32, F16, F64 = facula.bfloat16, facula.float32, facula.float16, facula.float64


def draw(*sizes, dtype=F32, extra=0):
    r = np.random.default_rng([seed.SEED % 2**32, extra])
    return facula.tensor(r.standard_normal(sizes).tolist(), dtype=dtype)


def test_lists():
    a, b = draw(4, 4), draw(4, 4, extra=1)
    with facula.autocast("cpu", dtype=BF16):
        assert (a @ b).dtype is BF16
        assert facula.mm(a, b).dtype is BF16
        assert facula.nn.functional.linear(a, b).dtype is BF16
        assert facula.addmm(a, a, b).dtype is BF16 and facula._addmm_activation(a, a, b).dtype is BF16
        assert (a + b).dtype is F32 and facula.exp(a).dtype is F32
        narrow = a @ b
        assert facula.exp(narrow).dtype is BF16  # on no list of the cpu
        assert facula.nn.functional.mse_loss(narrow, narrow).dtype is F32
        assert facula.cat([narrow, a]).dtype is F32 and facula.cat([narrow, narrow]).dtype is BF16
        assert facula.stack([a, narrow]).dtype is F32
        assert (a.double() @ b.double()).dtype is F64  # doubles stay
        assert facula.ones(2, 2, dtype=facula.int64).sum().dtype is facula.int64
    assert (a @ b).dtype is F32


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_values_are_those_of_casts(dtype):
    a, b, c = draw(9, 5), draw(5, 7, extra=1), draw(7, extra=2)
    with facula.autocast("cpu", dtype=dtype):
        got = facula.nn.functional.linear(a, b.t(), c)
    assert got.equal(facula.nn.functional.linear(a.to(dtype), b.to(dtype).t(), c.to(dtype)))


def test_nesting_and_off():
    a = draw(3, 3)
    assert not facula.is_autocast_enabled("cpu")
    with facula.autocast("cpu", dtype=BF16):
        assert facula.is_autocast_enabled("cpu") and not facula.is_autocast_enabled("cuda")
        with facula.autocast("cpu", enabled=False):
            assert (a @ a).dtype is F32 and not facula.is_autocast_enabled("cpu")
        with facula.autocast("cpu", dtype=F16):
            assert (a @ a).dtype is F16 and facula.get_autocast_dtype("cpu") is F16
        assert (a @ a).dtype is BF16
    assert (a @ a).dtype is F32 and facula.get_autocast_dtype("cpu") is BF16
    with pytest.raises(ZeroDivisionError):
        with facula.autocast("cpu"):
            1 / 0
    assert not facula.is_autocast_enabled("cpu")

    @facula.autocast("cpu", dtype=F16)
    def product(x):
        return x @ x

    assert product(a).dtype is F16


def test_gradients():
    """Gradients have the dtype of their tensors and the values of a computation with casts written out."""
    x, w = draw(6, 5), draw(5, 4, extra=1).requires_grad_()
    with facula.autocast("cpu", dtype=BF16):
        loss = (x @ w).float().pow(2).sum()
        loss.backward()  # inside the region: backward does not cast
    got, w.grad = w.grad, None
    (x.to(BF16) @ w.to(BF16)).float().pow(2).sum().backward()
    assert got.dtype is F32 and got.equal(w.grad)


def casts(y):
    """The nodes of the graph behind a tensor that convert a dtype."""
    found, todo, seen = [], [y.grad_fn], {}
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen[id(node)] = node  # held, so that no other node gets its id
        found += [node] if "ToCopy" in node.name() else []
        todo += [n for n, _ in node.next_functions]
    return found


def test_casts_of_weights_are_kept():
    x, w = draw(3, 3), draw(3, 3, extra=1).requires_grad_()
    with facula.autocast("cpu", dtype=BF16):
        y = (x @ w) @ w
        assert len(casts(y)) == 1
    with facula.autocast("cpu", dtype=BF16, cache_enabled=False):
        assert len(casts((x @ w) @ w)) == 2
    # A weight that was changed is cast anew.
    with facula.autocast("cpu", dtype=BF16):
        before = x @ w
        with facula.no_grad():
            w.mul_(2)
        after = x @ w
    assert after.equal((x.to(BF16) @ w.detach().to(BF16))) and not after.equal(before)
    # A cast that no tape saw serves no tape.
    with facula.autocast("cpu", dtype=BF16):
        with facula.no_grad():
            x @ w
        (x @ w).sum().backward()
    assert w.grad is not None


def test_several_backwards_in_one_region():
    x, w = draw(3, 3), draw(3, 3, extra=1).requires_grad_()
    with facula.autocast("cpu", dtype=BF16):
        (x @ w).sum().backward()
        first, w.grad = w.grad, None
        (x @ w).sum().backward()
    assert first.equal(w.grad)


def test_checkpoint_computes_again_as_before():
    from facula.utils.checkpoint import checkpoint
    x, w = draw(5, 5), draw(5, 5, extra=1).requires_grad_()

    def part(t):
        return ((t @ w).tanh() @ w).float()

    with facula.autocast("cpu", dtype=BF16):
        part(x).sum().backward()
    want, w.grad = w.grad, None
    with facula.autocast("cpu", dtype=BF16):
        y = checkpoint(part, x, use_reentrant=False)
    y.sum().backward()
    assert w.grad.equal(want)


def test_custom_functions():
    seen = []

    class Product(facula.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu")
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            seen.append(facula.is_autocast_enabled("cpu"))
            return (grad @ b.t()).float(), (a.t() @ grad).float()

    a, b = draw(3, 3).requires_grad_(), draw(3, 3, extra=1).requires_grad_()
    with facula.autocast("cpu", dtype=BF16):
        y = Product.apply(a, b)
    y.float().sum().backward()
    assert y.dtype is BF16 and seen == [True] and a.grad.dtype is F32

    class Wide(facula.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=F32)
        def forward(ctx, a):
            return a @ a

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            return grad

    with facula.autocast("cpu", dtype=BF16):
        assert Wide.apply(draw(2, 2).to(BF16)).dtype is F32


def test_mistakes():
    with pytest.warns(UserWarning, match="not supported"):
        with facula.autocast("cpu", dtype=F64):
            assert (draw(2, 2) @ draw(2, 2)).dtype is F32
    with pytest.raises(RuntimeError, match="device_type"):
        facula.autocast("tpu")
    with pytest.raises(ValueError, match="device_type"):
        facula.autocast(BF16)


# Scaling.


def test_scaler_steps_as_without_scaling():
    results = []
    for scaled in (False, True):
        w = draw(4, 3).requires_grad_()
        optimizer = optim.Adam([w], lr=0.1)
        scaler = amp.GradScaler("cpu", init_scale=1024.0, enabled=scaled)
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale((w**2).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        results.append(w.detach())
    assert results[0].equal(results[1])  # a power of two changes no digit


def test_scaler_skips_and_backs_off():
    w = facula.ones(3, requires_grad=True)
    optimizer = optim.SGD([w], lr=1.0)
    scaler = amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    scales = []
    for bad in (False, False, True, False, False, False):
        w.grad = None
        scaler.scale(w.sum()).backward()
        if bad:
            w.grad[1] = math.inf
        before = w.detach().clone()
        scaler.step(optimizer)
        assert w.detach().equal(before) == bad
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [8, 16, 8, 8, 16, 16]
    assert scaler.state_dict()["_growth_tracker"] == 1


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("place", [0, 4999, 20000])
def test_unscale_finds_what_is_not_finite(bad, place):
    params = [facula.ones(7, requires_grad=True), facula.ones(20001, requires_grad=True)]
    optimizer = optim.SGD(params, lr=1.0)
    scaler = amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(sum(p.sum() for p in params)).backward()
    params[1].grad[place] = bad
    scaler.unscale_(optimizer)
    assert params[0].grad.tolist() == [1.0] * 7
    assert params[1].grad[1].item() == 1.0
    scaler.step(optimizer)
    assert params[0].detach().equal(facula.ones(7))
    scaler.update()
    assert scaler.get_scale() == 2.0


def test_scaler_state_and_mistakes():
    w = facula.ones(2, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    scaler = amp.GradScaler("cpu", init_scale=32.0)
    with pytest.raises(RuntimeError, match="scale"):
        scaler.step(optimizer)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    scaler.update(5.0)
    assert scaler.get_scale() == 5.0
    other = amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 5.0 and other.state_dict() == scaler.state_dict()
    off = amp.GradScaler("cpu", enabled=False)
    assert off.get_scale() == 1.0 and off.state_dict() == {} and off.scale(w) is w
    half = facula.ones(2, dtype=F16, requires_grad=True)
    half.grad = facula.ones(2, dtype=F16)
    with pytest.raises(ValueError, match="FP16"):
        scaler.unscale_(optim.SGD([half], lr=0.1))


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
def test_peer_lists():
    """The result dtypes of the cpu's lists, op by op."""

    def dtypes(lib):
        f, found = lib.nn.functional, {}
        x = lib.ones(1, 4, 4)
        n = x.to(lib.bfloat16)
        for narrow, t in (("wide", x), ("narrow", n)):
            calls = {"mm": lambda: lib.mm(t[0], t[0]), "bmm": lambda: lib.bmm(t, t), "matmul": lambda: lib.matmul(t, t),
                     "addmm": lambda: lib.addmm(t[0], t[0], t[0]), "baddbmm": lambda: lib.baddbmm(t, t, t),
                     "linear": lambda: f.linear(t, t[0]), "exp": lambda: lib.exp(t), "sum": lambda: t.sum(),
                     "softmax": lambda: f.softmax(t, -1), "add": lambda: t + x, "mse": lambda: f.mse_loss(t, x),
                     "huber": lambda: f.huber_loss(t, x), "cat": lambda: lib.cat([t, x]), "stack": lambda: lib.stack([t, t]),
                     "mean": lambda: t.mean(), "pow": lambda: t**2, "trace": lambda: lib.trace(t[0])}
            with lib.autocast("cpu", dtype=lib.bfloat16):
                found.update({(name, narrow): str(call().dtype).split(".")[-1] for name, call in calls.items()})
        return found

    assert dtypes(facula) == dtypes(torch)


@pytest.mark.parametrize("make", [facula.nn.LSTM, facula.nn.GRU, facula.nn.RNN], ids=lambda make: make.__name__)
def test_recurrent_networks_compute_in_the_narrow_type(make):
    facula.manual_seed(seed.SEED)
    net, x = make(6, 5, num_layers=2), facula.randn(4, 3, 6)
    wanted, _ = net(x)
    with facula.autocast("cpu", dtype=facula.bfloat16):
        found, _ = net(x)
        narrow, _ = net(x.bfloat16())
    assert found.dtype is facula.bfloat16 and narrow.dtype is facula.bfloat16
    np.testing.assert_allclose(found.detach().float().numpy(), wanted.detach().numpy(), atol=0.05)
    found.float().sum().backward()
    assert all(p.grad.dtype is facula.float32 for p in net.parameters())
