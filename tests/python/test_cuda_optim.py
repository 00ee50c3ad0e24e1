"""Optimizers, norms and gradient scaling on a GPU against the cpu."""

import math

import numpy as np
import pytest
import seed
from gpu_support import needs_gpu

import facula
from facula import amp, optim

pytestmark = needs_gpu

CASES = [("SGD", dict(lr=0.1, momentum=0.9, nesterov=True)), ("SGD", dict(lr=0.1, weight_decay=0.1)), ("Adam", dict(lr=0.1)),
         ("AdamW", dict(lr=0.1, amsgrad=True, capturable=True)), ("RMSprop", dict(centered=True, momentum=0.5)),
         ("Adagrad", dict(lr_decay=0.1))]


def drawn(count=120):
    """Arrays of many sizes, more than one launch takes."""
    r = np.random.default_rng(seed.SEED)
    sizes = [int(n) for n in r.integers(1, 400, count)] + [5000, 33000]
    return [[r.standard_normal(n).tolist() for n in sizes] for _ in range(3)]


def run(device, name, dtype, options):
    start, *grads = drawn()
    params = [facula.tensor(p, dtype=dtype).to(device).requires_grad_() for p in start]
    optimizer = getattr(optim, name)(params, **options)
    for step in grads:
        for p, g in zip(params, step):
            p.grad = facula.tensor(g, dtype=dtype).to(device)
        optimizer.step()
    return [p.detach().cpu() for p in params]


@pytest.mark.parametrize("dtype", [facula.float32, facula.bfloat16])
@pytest.mark.parametrize("name, options", CASES)
def test_steps(name, options, dtype):
    tolerance = 1e-6 if dtype is facula.float32 else 1e-2
    for a, b in zip(run("cpu", name, dtype, options), run("cuda", name, dtype, options)):
        assert facula.allclose(a.float(), b.float(), rtol=tolerance, atol=tolerance)


def test_addresses_that_fit_no_pack():
    """Parameters that begin in the middle of a pack."""
    both = []
    for device in ("cpu", "cuda"):
        base = facula.arange(101, dtype=facula.float32).to(device)
        p = base[1:].requires_grad_()
        p.grad = facula.ones(100, device=device)
        optim.SGD([p], lr=0.5).step()
        both.append(base.detach().cpu())
    assert both[0].equal(both[1])


def test_rate_on_the_device():
    p = facula.ones(3, device="cuda", requires_grad=True)
    p.grad = facula.ones(3, device="cuda")
    optimizer = optim.SGD([p], lr=facula.tensor(0.5, device="cuda"))
    optimizer.step()
    optimizer.param_groups[0]["lr"].fill_(0.25)
    optimizer.step()
    assert p.tolist() == [0.25] * 3


def test_captured_steps_count():
    w, v = (facula.ones(5, device=d, requires_grad=True) for d in ("cuda", "cpu"))
    w.grad, v.grad = facula.full((5,), 0.5, device="cuda"), facula.full((5,), 0.5)
    captured, plain = optim.AdamW([w], lr=0.1, capturable=True), optim.AdamW([v], lr=0.1)
    captured.step()
    plain.step()
    graph = facula.cuda.CUDAGraph()
    with facula.cuda.graph(graph):
        captured.step()
    for _ in range(4):
        graph.replay()
        plain.step()
    facula.cuda.synchronize()
    assert captured.state[w]["step"].item() == 5
    assert facula.allclose(w.cpu(), v, rtol=1e-6)


def test_norms():
    arrays = drawn()[0]
    tensors = [facula.tensor(a).cuda() for a in arrays]
    flat = np.concatenate([np.array(a) for a in arrays])
    for ord in (2.0, 1.0, 3.0, math.inf):
        assert facula._native._optim.norm(tensors, ord).item() == pytest.approx(np.linalg.norm(flat, ord), rel=1e-5)


@pytest.mark.parametrize("bad", [None, math.inf, math.nan])
def test_scaler(bad):
    p = facula.ones(20001, device="cuda", requires_grad=True)
    optimizer, scaler = optim.SGD([p], lr=1.0), amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale(p.sum()).backward()
    if bad is not None:
        p.grad[20000] = bad
    scaler.step(optimizer)
    scaler.update()
    assert p[0].item() == (0.0 if bad is None else 1.0)
    assert scaler.get_scale() == (4.0 if bad is None else 2.0)


def test_autocast_lists():
    x = facula.ones(4, 4, device="cuda")
    with facula.autocast("cuda", dtype=facula.bfloat16):
        y = x @ x
        assert y.dtype is facula.bfloat16
        assert facula.softmax(y, -1).dtype is facula.float32
        assert facula.exp(y).dtype is facula.float32 and y.sum().dtype is facula.float32
        assert (facula.ones(2, 2) @ facula.ones(2, 2)).dtype is facula.float32  # the cpu's is off
