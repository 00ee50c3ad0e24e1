"""Anomaly mode: the first op that makes NaN is named, forwards and backwards, with its module."""
import threading

import facula
import numpy as np
import pytest
from facula import nn
from facula.autograd import detect_anomaly, set_detect_anomaly
from seed import SEED


def generator():
    return np.random.default_rng(SEED)


def test_the_first_op_is_named():
    array = generator().standard_normal((5, 7)).astype("float32")
    x = facula.from_numpy(array)
    bad = np.argwhere(array < 0)
    with detect_anomaly(), pytest.raises(facula.NanError) as caught:
        (x * 1).log().exp().sum()
    text = str(caught.value)
    assert text.startswith("log: ")
    assert f"NaN in {len(bad)} of 35 entries, the first at {bad[0].tolist()}" in text
    assert "self Float [5, 7] from " in text and "clamp_min" in text
    assert isinstance(caught.value, RuntimeError) and isinstance(caught.value, FloatingPointError)


def test_it_ends_with_its_block():
    x = facula.tensor([-1.0])
    with detect_anomaly():
        with pytest.raises(facula.NanError):
            x.log()
        with detect_anomaly(check_nan=False):
            x.log()
        with detect_anomaly(check_forward=False):
            x.log()
        with pytest.raises(facula.NanError):
            facula.log(x)
    x.log()
    set_detect_anomaly(True)
    try:
        with pytest.raises(facula.NanError):
            x.log_()
    finally:
        set_detect_anomaly(False)
    facula.tensor([-1.0]).log()
    assert not facula.autograd.is_anomaly_enabled()


def test_other_threads_are_left_alone():
    found = []

    def work():
        try:
            found.append(facula.tensor([-1.0]).log())
        except RuntimeError as error:
            found.append(error)

    with detect_anomaly():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert isinstance(found[0], facula.Tensor)


def test_nan_that_was_given_is_nobodys_fault():
    x = facula.tensor([1.0, float("nan")])
    with detect_anomaly():
        assert facula.isnan((x * 2 + 1).sum())
        facula.ones(3).masked_fill(facula.tensor([True, False, True]), float("nan"))
        facula.where(facula.tensor([True, False]), facula.ones(2), x)
        facula.full((3,), float("nan"))
        facula.empty(1000)


def test_the_module_is_named():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear1 = nn.Linear(6, 6)

        def forward(self, x):
            return facula.sqrt(self.linear1(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Block() for _ in range(4)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    net = Net()
    with facula.no_grad():
        for layer in net.layers:  # positive, so that roots are numbers
            layer.linear1.weight.fill_(0.1)
            layer.linear1.bias.fill_(0.1)
    x = facula.from_numpy(generator().random((3, 6)).astype("float32"))
    with detect_anomaly():
        net(x)
        with facula.no_grad():
            net.layers[2].linear1.bias.fill_(-100)
        with pytest.raises(facula.NanError, match=r"^sqrt: (.|\n)*in module 'layers\.2', Block"):
            net(x)
        with facula.no_grad():
            net.layers[1].linear1.weight.copy_(facula.tensor([3e38, -3e38]).repeat(6, 3))
            net.layers[1].linear1.bias.fill_(0)
        with pytest.raises(facula.NanError, match=r"^linear: (.|\n)*in module 'layers\.1\.linear1', Linear\(in_features=6"):
            net(x * 1e3 + 1e3)


def test_backward_names_both_ops():
    x = facula.zeros(3, requires_grad=True)
    with detect_anomaly():
        loss = (x.sqrt() * 0).sum()
        with pytest.raises(facula.NanError) as caught:
            loss.backward()
    text = str(caught.value)
    assert text.startswith("Function 'SqrtBackward0' returned nan values in its 0th output")
    assert "which calls sqrt" in text and "loss = (x.sqrt() * 0).sum()" in text
    assert x.grad is None


def test_results_are_the_same():
    x = facula.from_numpy(generator().standard_normal((8, 8)))

    def compute():
        w = x.clone().requires_grad_()
        y = (w @ w).softmax(-1).cumsum(0).sort(dim=1)[0].var(0)
        y.sum().backward()
        return y.detach().numpy(), w.grad.numpy()

    plain = compute()
    with detect_anomaly():
        watched = compute()
    for a, b in zip(plain, watched):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make", [facula.optim.Adam, facula.optim.AdamW, facula.optim.RMSprop, facula.optim.Adagrad],
                         ids=lambda make: make.__name__)
def test_the_steps_of_optimizers_are_looked_at(make):
    params = [facula.ones(3, requires_grad=True), facula.ones(2, 2, requires_grad=True)]
    optimizer = make(params, lr=0.1)
    params[0].grad = facula.ones(3)
    params[1].grad = facula.full((2, 2), float("inf"))  # divided by the root of its square
    with detect_anomaly(), pytest.raises(facula.NanError, match=rf"^{make.__name__}: the step made parameter 1"):
        optimizer.step()


def test_a_training_that_diverges_is_stopped():
    x = facula.from_numpy(generator().standard_normal((32, 4)).astype("float32"))
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = facula.optim.SGD(net.parameters(), lr=1e3)
    with detect_anomaly(), pytest.raises(facula.NanError):
        for _ in range(60):
            optimizer.zero_grad()
            (net(x) ** 4).mean().backward()
            optimizer.step()
