"""Schedulers against closed forms, and against PyTorch where it is installed."""

import math
import warnings

import numpy as np
import pytest

import facula
from facula import optim
from facula.optim import lr_scheduler as lrs

try:
    import torch
except ImportError:
    torch = None

STEPS = 30

# Name, how to make it from an optimizer and the module of schedulers, the factor of step t (None: only the peer knows).
CASES = {
    "StepLR": (lambda o, m: m.StepLR(o, 7, gamma=0.5), lambda t: 0.5 ** (t // 7)),
    "MultiStepLR": (lambda o, m: m.MultiStepLR(o, [3, 11, 11, 20], gamma=0.3), lambda t: 0.3 ** sum(t >= x for x in (3, 11, 11, 20))),
    "ConstantLR": (lambda o, m: m.ConstantLR(o, 0.25, 6), lambda t: 0.25 if t < 6 else 1),
    "LinearLR": (lambda o, m: m.LinearLR(o, 0.2, 0.8, 12), lambda t: 0.2 + 0.6 * min(t, 12) / 12),
    "ExponentialLR": (lambda o, m: m.ExponentialLR(o, 0.9), lambda t: 0.9**t),
    "PolynomialLR": (lambda o, m: m.PolynomialLR(o, 20, 2.0), lambda t: (1 - min(t, 20) / 20) ** 2),
    "CosineAnnealingLR": (lambda o, m: m.CosineAnnealingLR(o, 40), lambda t: (1 + math.cos(math.pi * t / 40)) / 2),
    "CosineAnnealingLR-turns": (lambda o, m: m.CosineAnnealingLR(o, 10, eta_min=0.01), None),
    "CosineAnnealingWarmRestarts": (lambda o, m: m.CosineAnnealingWarmRestarts(o, 4, 2, eta_min=0.001), None),
    "LambdaLR": (lambda o, m: m.LambdaLR(o, lambda t: 1 / (1 + t)), lambda t: 1 / (1 + t)),
    "MultiplicativeLR": (lambda o, m: m.MultiplicativeLR(o, lambda t: 0.95), lambda t: 0.95**t),
    "OneCycleLR": (lambda o, m: m.OneCycleLR(o, [0.5, 0.25], total_steps=STEPS + 1), None),
    "OneCycleLR-three": (lambda o, m: m.OneCycleLR(o, 0.5, total_steps=STEPS + 1, three_phase=True, anneal_strategy="linear",
                                                   pct_start=0.2), None),
    "CyclicLR": (lambda o, m: m.CyclicLR(o, 0.01, 0.1, step_size_up=4, mode="triangular2"), None),
    "SequentialLR": (lambda o, m: m.SequentialLR(o, [m.LinearLR(o, 0.1, total_iters=5), m.ExponentialLR(o, 0.9),
                                                     m.CosineAnnealingLR(o, 10)], [5, 12]), None),
    "SequentialLR-constant": (lambda o, m: m.SequentialLR(o, [m.ConstantLR(o, 0.1, 3), m.StepLR(o, 2, 0.5)], [4]), None),
    "ChainedScheduler": (lambda o, m: m.ChainedScheduler([m.ConstantLR(o, 0.1, 4), m.ExponentialLR(o, 0.9)]), None),
}


def path(lib, module, make, steps=STEPS):
    """Rates and momenta of both groups at each step."""
    a, b = (lib.ones(1, requires_grad=True) for _ in range(2))
    optimizer = lib.optim.SGD([{"params": [a], "lr": 0.4}, {"params": [b]}], lr=0.2, momentum=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler = make(optimizer, module)
        rows = []
        for _ in range(steps):
            rows.append([g[k] for g in optimizer.param_groups for k in ("lr", "momentum")])
            assert [g["lr"] for g in optimizer.param_groups] == pytest.approx(scheduler.get_last_lr(), rel=1e-12)
            optimizer.step()
            scheduler.step()
    return np.array(rows), optimizer, scheduler


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c[1]])
def test_closed_form(name):
    make, factor = CASES[name]
    rows, _, _ = path(facula, lrs, make)
    factors = np.array([factor(t) for t in range(STEPS)])
    np.testing.assert_allclose(rows[:, 0], 0.4 * factors, rtol=1e-9)
    np.testing.assert_allclose(rows[:, 2], 0.2 * factors, rtol=1e-9)


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name", CASES)
def test_peer(name):
    if not hasattr(torch.optim.lr_scheduler, name.partition("-")[0]):
        pytest.skip(f"this PyTorch has no {name}")
    make = CASES[name][0]
    ours, _, _ = path(facula, lrs, make)
    theirs, _, _ = path(torch, torch.optim.lr_scheduler, make)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_state_dict_continues(name):
    make = CASES[name][0]
    want, _, _ = path(facula, lrs, make)
    _, first, scheduler = path(facula, lrs, make, 13)
    _, second, other = path(facula, lrs, make, 0)
    second.load_state_dict(first.state_dict())
    other.load_state_dict(scheduler.state_dict())
    for t in range(13, STEPS):
        np.testing.assert_allclose([g[k] for g in second.param_groups for k in ("lr", "momentum")], want[t], rtol=1e-9)
        second.step()
        other.step()


def plateau_path(lib, module, **options):
    w = lib.ones(1, requires_grad=True)
    optimizer = lib.optim.SGD([w], lr=1.0)
    scheduler = module.ReduceLROnPlateau(optimizer, **options)
    losses = [5, 4, 4, 4, 4, 3.99999, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2]
    rates = []
    for loss in losses:
        scheduler.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


PLATEAUS = [dict(patience=2), dict(patience=1, factor=0.5, cooldown=2), dict(patience=0, min_lr=0.05), dict(mode="max", patience=3),
            dict(patience=2, threshold_mode="abs", threshold=0.5)]


def test_plateau():
    assert plateau_path(facula, lrs, patience=2) == pytest.approx([1] * 4 + [0.1] * 5 + [0.01] * 3 + [1e-3] * 3 + [1e-4] * 4 +
                                                                  [1e-5] * 3 + [1e-6], rel=1e-9)


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("options", PLATEAUS)
def test_plateau_peer(options):
    assert plateau_path(facula, lrs, **options) == pytest.approx(plateau_path(torch, torch.optim.lr_scheduler, **options), rel=1e-12)


def test_rate_in_a_tensor_stays_that_tensor():
    w, lr = facula.ones(1, requires_grad=True), facula.tensor(0.5)
    optimizer = optim.SGD([w], lr=lr)
    scheduler = lrs.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is lr and lr.item() == 0.25


def test_order_is_watched():
    optimizer = optim.SGD([facula.ones(1, requires_grad=True)], lr=1.0)
    scheduler = lrs.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match="before optimizer.step"):
        scheduler.step()


def test_mistakes():
    optimizer = optim.SGD([facula.ones(1, requires_grad=True)], lr=1.0)
    other = optim.SGD([facula.ones(1, requires_grad=True)], lr=1.0)
    for call, text in [
        (lambda: lrs.ConstantLR(optimizer, 2.0), "between 0 and 1"),
        (lambda: lrs.LinearLR(optimizer, 0.0), "greater than 0"),
        (lambda: lrs.ReduceLROnPlateau(optimizer, factor=1.0), "Factor"),
        (lambda: lrs.ReduceLROnPlateau(optimizer, mode="best"), "unknown"),
        (lambda: lrs.OneCycleLR(optimizer, 0.1), "total_steps OR"),
        (lambda: lrs.SequentialLR(optimizer, [lrs.StepLR(optimizer, 2)], [3]), "one more than"),
        (lambda: lrs.SequentialLR(optimizer, [lrs.StepLR(other, 2)], []), "same optimizer"),
        (lambda: lrs.LambdaLR(optimizer, [lambda t: 1, lambda t: 1]), "expected 1"),
        (lambda: lrs.CosineAnnealingWarmRestarts(optimizer, 0), "T_0"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="not an Optimizer"):
        lrs.StepLR("SGD", 2)
