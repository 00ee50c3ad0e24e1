"""Optimizers against rules that NumPy computes in float64, and against PyTorch where it is installed."""

import copy
import math

import numpy as np
import pytest
import seed

import facula
from facula import optim

try:
    import torch
except ImportError:
    torch = None

SHAPES = [(7,), (3, 5), (), (2, 3, 4), (40, 33), (1,)]
STEPS = 6


def rng(extra=0):
    return np.random.default_rng([seed.SEED % 2**32, extra])


def drawn(extra, dtype=np.float64):
    """Parameters, and gradients for each step; one parameter has no gradient now and then."""
    r = rng(extra)
    params = [np.asarray(r.standard_normal(s), dtype) for s in SHAPES]
    grads = [[np.asarray(r.standard_normal(s), dtype) for s in SHAPES] for _ in range(STEPS)]
    grads[0][1] = grads[3][1] = None
    return params, grads


# Each rule: parameters p, gradients g and what is remembered, s, of one tensor; numbers are doubles.


def sgd_rule(p, g, s, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        s["b"] = momentum * s["b"] + (1 - dampening) * g if "b" in s else g
        g = g + momentum * s["b"] if nesterov else s["b"]
    return p - lr * g


def adam_rule(p, g, s, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, maximize=False, decoupled=False):
    g = -g if maximize else g
    if decoupled:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    s["t"] = s.get("t", 0) + 1
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    s["x"] = np.maximum(s.get("x", 0), s["v"])
    v = (s["x"] if amsgrad else s["v"]) / (1 - betas[1] ** s["t"])
    return p - lr * s["m"] / (1 - betas[0] ** s["t"]) / (np.sqrt(v) + eps)


def adamw_rule(p, g, s, weight_decay=1e-2, **k):
    return adam_rule(p, g, s, weight_decay=weight_decay, decoupled=True, **k)


def rmsprop_rule(p, g, s, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    s["v"] = alpha * s.get("v", 0) + (1 - alpha) * g * g
    v = s["v"]
    if centered:
        s["m"] = alpha * s.get("m", 0) + (1 - alpha) * g
        v = v - s["m"] ** 2
    step = g / (np.sqrt(v) + eps)
    if momentum:
        s["b"] = step = momentum * s.get("b", 0) + step
    return p - lr * step


def adagrad_rule(p, g, s, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    s["t"] = s.get("t", 0) + 1
    s["v"] = s.get("v", initial_accumulator_value) + g * g
    return p - lr / (1 + (s["t"] - 1) * lr_decay) * g / (np.sqrt(s["v"]) + eps)


CASES = [
    ("SGD", sgd_rule, [{}, dict(lr=0.1), dict(lr=0.1, momentum=0.9), dict(lr=0.1, momentum=0.9, dampening=0.3),
                       dict(lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1),
                       dict(lr=0.1, weight_decay=0.2, maximize=True)]),
    ("Adam", adam_rule, [{}, dict(lr=0.02, betas=(0.8, 0.95)), dict(lr=0.02, weight_decay=0.1, eps=1e-3),
                         dict(lr=0.02, amsgrad=True), dict(lr=0.02, maximize=True)]),
    ("AdamW", adamw_rule, [{}, dict(lr=0.02, weight_decay=0.3), dict(lr=0.02, amsgrad=True, maximize=True),
                           dict(lr=0.02, weight_decay=0)]),
    ("RMSprop", rmsprop_rule, [{}, dict(alpha=0.9, eps=1e-3), dict(momentum=0.9), dict(centered=True),
                               dict(momentum=0.5, centered=True, weight_decay=0.1, maximize=True)]),
    ("Adagrad", adagrad_rule, [{}, dict(lr_decay=0.1), dict(initial_accumulator_value=0.5, weight_decay=0.1, eps=1e-4),
                               dict(maximize=True)]),
]
FLAT_CASES = [(name, rule, options) for name, rule, many in CASES for options in many]
IDS = [f"{name}-{'-'.join(options) or 'plain'}" for name, _, options in FLAT_CASES]


def run_rule(rule, params, grads, options):
    params, states = [p.astype(np.float64) for p in params], [{} for _ in params]
    for step in grads:
        for i, g in enumerate(step):
            if g is not None:
                params[i] = rule(params[i], g.astype(np.float64), states[i], **options)
    return params


def run_ours(make, params, grads, dtype, layout=None):
    tensors = [facula.tensor(p.tolist(), dtype=dtype) for p in params]
    tensors = [(layout(t) if layout else t).requires_grad_() for t in tensors]
    optimizer = make(tensors)
    for step in grads:
        for t, g in zip(tensors, step):
            t.grad = None if g is None else facula.tensor(g.tolist(), dtype=dtype)
        optimizer.step()
    return tensors, optimizer


def assert_near(tensors, arrays, tolerance):
    for t, a in zip(tensors, arrays):
        np.testing.assert_allclose(np.array(t.detach().double().tolist()), a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name, rule, options", FLAT_CASES, ids=IDS)
def test_rule(name, rule, options):
    params, grads = drawn(1)
    want = run_rule(rule, params, grads, options)
    for dtype, tolerance in ((facula.float64, 1e-12), (facula.float32, 3e-5)):
        tensors, _ = run_ours(lambda t: getattr(optim, name)(t, **options), params, grads, dtype)
        assert_near(tensors, want, tolerance)


def transposed(t):
    return t.t().contiguous().t() if t.dim() == 2 else t


@pytest.mark.parametrize("name, rule, options", FLAT_CASES, ids=IDS)
def test_layouts(name, rule, options):
    """Parameters that are dense but not contiguous, with gradients that are."""
    params, grads = drawn(2)
    want = run_rule(rule, params, grads, options)
    tensors, _ = run_ours(lambda t: getattr(optim, name)(t, **options), params, grads, facula.float64, transposed)
    assert any(not t.is_contiguous() for t in tensors)
    assert_near(tensors, want, 1e-12)


@pytest.mark.parametrize("dtype", [facula.bfloat16, facula.float16])
def test_narrow_types_round_once(dtype):
    """States and parameters are narrow, what lies between is float32."""
    params, grads = drawn(3)
    narrow = [np.array(facula.tensor(p.tolist()).to(dtype).double().tolist()) for p in params]
    tensors, _ = run_ours(lambda t: optim.SGD(t, lr=0.25), narrow, grads[:1], dtype)
    for t, p, g in zip(tensors, narrow, grads[0]):
        if g is not None:
            g = np.array(facula.tensor(g.tolist()).to(dtype).double().tolist())
            want = facula.tensor((p - 0.25 * g).tolist(), dtype=facula.float64).to(facula.float32).to(dtype)
            assert t.detach().equal(want)


def test_threads_make_no_difference():
    r = rng(4)
    sizes = [100_003, 1, 5000, 70_001]
    params = [r.standard_normal(n).astype(np.float32) for n in sizes]
    grads = [[r.standard_normal(n).astype(np.float32) for n in sizes] for _ in range(2)]
    threads, results = facula.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            facula.set_num_threads(count)
            tensors, _ = run_ours(lambda t: optim.AdamW(t, lr=0.1), params, grads, facula.float32)
            results.append(tensors)
    finally:
        facula.set_num_threads(threads)
    for other in results[1:]:
        assert all(a.equal(b) for a, b in zip(results[0], other))
    want = run_rule(adamw_rule, params, grads, dict(lr=0.1))
    assert_near(results[0], want, 2e-5)


def test_complex_parameters_are_pairs():
    r = rng(5)
    p, g = (r.standard_normal((2, 9)) for _ in range(2))
    pair, _ = run_ours(lambda t: optim.Adam(t, lr=0.1), [p.T], [[g.T]], facula.float64)
    z = facula.tensor((p[0] + 1j * p[1]).tolist(), dtype=facula.complex128).requires_grad_()
    z.grad = facula.tensor((g[0] + 1j * g[1]).tolist(), dtype=facula.complex128)
    optim.Adam([z], lr=0.1).step()
    assert facula.view_as_real(z.detach()).equal(pair[0].detach())


def test_groups_and_rates():
    params, grads = drawn(6)
    groups = lambda t: [{"params": t[:2], "lr": 0.5}, {"params": t[2:], "weight_decay": 0.1}]  # noqa: E731
    tensors, optimizer = run_ours(lambda t: optim.Adam(groups(t), lr=0.1), params, grads, facula.float64)
    want = run_rule(adam_rule, params[:2], [g[:2] for g in grads], dict(lr=0.5))
    want += run_rule(adam_rule, params[2:], [g[2:] for g in grads], dict(lr=0.1, weight_decay=0.1))
    assert_near(tensors, want, 1e-12)
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1]
    # A rate may be a tensor.
    tensors, _ = run_ours(lambda t: optim.Adam(t, lr=facula.tensor(0.125)), params, grads, facula.float64)
    assert_near(tensors, run_rule(adam_rule, params, grads, dict(lr=0.125)), 1e-12)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_capturable_counts_in_tensors(name):
    params, grads = drawn(7)
    rule = adam_rule if name == "Adam" else adamw_rule
    tensors, optimizer = run_ours(lambda t: getattr(optim, name)(t, lr=0.05, capturable=True), params, grads, facula.float64)
    assert_near(tensors, run_rule(rule, params, grads, dict(lr=0.05)), 1e-12)
    assert [optimizer.state[t]["step"].item() for t in tensors] == [6, 4, 6, 6, 6, 6]


def test_closure_gives_its_loss():
    w = facula.tensor([3.0, -2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        return loss

    with facula.no_grad():
        assert optimizer.step(closure).item() == 13
    np.testing.assert_allclose(w.tolist(), [2.4, -1.6], rtol=1e-6)


def test_versions_rise_so_that_backward_notices():
    w = facula.tensor([1.0, 2.0], requires_grad=True)
    y = (w * w).sum()
    w.grad = facula.ones(2)
    optim.SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_zero_grad():
    w = facula.ones(3, requires_grad=True)
    w.grad = facula.ones(3)
    optimizer = optim.SGD([w])
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0, 0, 0]
    optimizer.zero_grad()
    assert w.grad is None


# L-BFGS.


def rosenbrock(x):
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_lbfgs_finds_the_minimum(line_search):
    r = rng(8)
    a = r.standard_normal((12, 12))
    a = a @ a.T + 0.5 * np.eye(12)
    b = r.standard_normal(12)
    matrix, target = facula.tensor(a.tolist(), dtype=facula.float64), facula.tensor(b.tolist(), dtype=facula.float64)
    x = facula.zeros(12, dtype=facula.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], lr=1 if line_search else 0.5, max_iter=100, tolerance_grad=1e-12,
                            tolerance_change=1e-15, line_search_fn=line_search)

    def closure():
        optimizer.zero_grad()
        loss = 0.5 * (x @ matrix @ x) - target @ x
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    np.testing.assert_allclose(x.tolist(), np.linalg.solve(a, b), rtol=1e-5, atol=1e-6)


def test_lbfgs_on_a_curved_valley_in_parts():
    x = facula.tensor([-1.2, 1.0], dtype=facula.float64, requires_grad=True)
    y = facula.tensor([0.5], dtype=facula.float64, requires_grad=True)
    optimizer = optim.LBFGS([x, y], line_search_fn="strong_wolfe", max_iter=200, history_size=10)

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(facula.cat([x, y]))
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(x.tolist() + y.tolist(), [1, 1, 1], rtol=1e-4)
    state = optimizer.state[x]
    assert state["n_iter"] > 5 and len(state["old_dirs"]) <= 10 and state["func_evals"] >= state["n_iter"]


# State dicts.


@pytest.mark.parametrize("name, rule, options", FLAT_CASES, ids=IDS)
def test_state_dict_continues(name, rule, options):
    """Half of the steps, a copy of the state in another optimizer, the other half."""
    params, grads = drawn(9)
    tensors, optimizer = run_ours(lambda t: getattr(optim, name)(t, **options), params, grads[:3], facula.float64)
    state = copy.deepcopy(optimizer.state_dict())
    assert state["param_groups"][0]["params"] == list(range(len(params)))

    def resume(fresh):
        other = getattr(optim, name)(fresh, lr=123.0)
        other.load_state_dict(state)
        return other

    again, other = run_ours(resume, [np.array(t.detach().tolist()) for t in tensors], grads[3:], facula.float64)
    assert_near(again, run_rule(rule, params, grads, options), 1e-12)
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    # What was loaded is a copy.
    for key, value in state["state"].items():
        for field, tensor in value.items():
            if isinstance(tensor, facula.Tensor) and field != "step":
                assert tensor.equal(optimizer.state_dict()["state"][key][field])


def test_state_dict_that_does_not_fit():
    w, v = facula.ones(2, requires_grad=True), facula.ones(3, requires_grad=True)
    state = optim.Adam([w, v]).state_dict()
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.Adam([{"params": [w]}, {"params": [v]}]).load_state_dict(state)
    with pytest.raises(ValueError, match="doesn't match the size"):
        optim.Adam([w]).load_state_dict(state)


def test_hooks():
    w = facula.ones(2, requires_grad=True)
    w.grad = facula.ones(2)
    optimizer, calls = optim.SGD([w], lr=1.0), []
    pre = optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append("pre"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append("post"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append("load"))
    optimizer.step()
    pre.remove()
    optimizer.step()
    assert calls == ["pre", "post", "post"]
    assert optimizer.state_dict()["more"] == 1
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls[-1] == "load"


def test_mistakes():
    w = facula.ones(2, requires_grad=True)
    for call, error, text in [
        (lambda: optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
        (lambda: optim.SGD(w, lr=0.1), TypeError, "iterable"),
        (lambda: optim.SGD([w], lr=-1), ValueError, "Invalid learning rate"),
        (lambda: optim.SGD([w], nesterov=True), ValueError, "Nesterov momentum"),
        (lambda: optim.Adam([w], betas=(1.0, 0.9)), ValueError, "beta parameter at index 0"),
        (lambda: optim.Adam([w * 2]), ValueError, "non-leaf"),
        (lambda: optim.Adam([3]), TypeError, "Tensors"),
        (lambda: optim.Adam([{"params": [w]}, {"params": [w]}]), ValueError, "more than one parameter group"),
        (lambda: optim.LBFGS([w], line_search_fn="none").step(lambda: (w * w).sum()), ValueError, "strong_wolfe"),
        (lambda: optim.Adam([w], differentiable=True), NotImplementedError, "differentiable"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_own_optimizer():
    class Signs(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    with facula.no_grad():
                        p -= group["lr"] * p.grad.sign()

    w = facula.tensor([1.0, -1.0], requires_grad=True)
    w.grad = facula.tensor([3.0, -0.1])
    optimizer = Signs([w], 0.5)
    optimizer.step()
    assert w.tolist() == [0.5, -0.5]
    assert "lr: 0.5" in repr(optimizer)


# PyTorch on the same numbers.


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name, rule, options", FLAT_CASES, ids=IDS)
def test_peer(name, rule, options):
    params, grads = drawn(10)
    if name == "RMSprop" and "maximize" in options:
        options = {**options, "maximize": False}  # older versions have no such option
    if name == "SGD":
        options = {"lr": 1e-3, **options}  # older versions have no default
    theirs = [torch.tensor(p, requires_grad=True) for p in params]
    peer = getattr(torch.optim, name)(theirs, **options)
    for step in grads:
        for t, g in zip(theirs, step):
            t.grad = None if g is None else torch.tensor(g)
        peer.step()
    ours, optimizer = run_ours(lambda t: getattr(optim, name)(t, **options), params, grads, facula.float64)
    assert_near(ours, [t.detach().numpy() for t in theirs], 1e-12)
    # The same layout of state dicts, entry by entry.
    a, b = optimizer.state_dict(), peer.state_dict()
    assert a["state"].keys() == b["state"].keys()
    for key, fields in b["state"].items():
        for field, value in fields.items():
            if value is not None:
                np.testing.assert_allclose(np.array(a["state"][key][field].tolist()), np.array(value), rtol=1e-12, atol=1e-14)
    assert a["param_groups"][0]["params"] == b["param_groups"][0]["params"]


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_peer_lbfgs(line_search):
    start = rng(11).uniform(-1.5, 1.5, 6)
    paths = []
    for lib in (facula, torch):
        x = lib.tensor(start.tolist(), dtype=lib.float64).requires_grad_()
        optimizer = lib.optim.LBFGS([x], lr=1 if line_search else 1e-3, max_iter=8, history_size=4, line_search_fn=line_search)
        path = []

        def closure():
            optimizer.zero_grad()
            loss = rosenbrock(x)
            loss.backward()
            path.append(loss.item())
            return loss

        for _ in range(3):
            optimizer.step(closure)
        paths.append(path + x.tolist())
    assert len(paths[0]) == len(paths[1])
    np.testing.assert_allclose(paths[0], paths[1], rtol=1e-6)


def test_norm_and_scale():
    r = rng(12)
    arrays = [r.standard_normal(s).astype(np.float32) for s in (5, 100_000, 1, 33)]
    tensors = [facula.tensor(a.tolist()) for a in arrays] + [facula.tensor(arrays[0].tolist(), dtype=facula.float64)]
    flat = np.concatenate([a.ravel().astype(np.float64) for a in arrays + arrays[:1]])
    for ord in (2.0, 1.0, 3.0, math.inf):
        want = np.linalg.norm(flat, ord)
        assert facula._native._optim.norm(tensors, ord).item() == pytest.approx(want, rel=1e-5)
    facula._native._optim.scale_(tensors, facula.tensor(0.5))
    np.testing.assert_array_equal(np.array(tensors[1].tolist(), np.float32), arrays[1] * np.float32(0.5))
    tensors[1][7] = math.nan
    assert math.isnan(facula._native._optim.norm(tensors, math.inf).item())
    assert math.isnan(facula._native._optim.norm(tensors, 2.0).item())
