"""How tensors read. The expected texts are PyTorch's, with our name in front of dtypes."""
import pytest

import facula
from facula import tensor

inf, nan = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def default_options():
    yield
    facula.set_printoptions(profile="default")


@pytest.mark.parametrize("make, text", [
    (lambda: tensor(1.0), "tensor(1.)"),
    (lambda: tensor(3), "tensor(3)"),
    (lambda: tensor(True), "tensor(True)"),
    (lambda: tensor(0.1), "tensor(0.1000)"),
    (lambda: tensor([1.0, 2.0]), "tensor([1., 2.])"),
    (lambda: tensor([1.5, -22.25]), "tensor([  1.5000, -22.2500])"),
    (lambda: tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
    (lambda: tensor([1, -10, 100]), "tensor([  1, -10, 100])"),
    (lambda: tensor([True, False]), "tensor([ True, False])"),
    (lambda: tensor([1.0, inf, -inf, nan]), "tensor([1., inf, -inf, nan])"),
    (lambda: tensor([10.5, nan]), "tensor([10.5000,     nan])"),
    (lambda: tensor([0.0]), "tensor([0.])"),
    (lambda: tensor([nan]), "tensor([nan])"),
    (lambda: tensor([1e-5]), "tensor([1.0000e-05])"),
    (lambda: tensor([1.0, 2000.5]), "tensor([1.0000e+00, 2.0005e+03])"),
    (lambda: tensor([1e9]), "tensor([1.0000e+09])"),
    (lambda: tensor([1.0, 1001.0]), "tensor([1.0000e+00, 1.0010e+03])"),
    (lambda: tensor([1.0, 1000.0]), "tensor([   1., 1000.])"),
    (lambda: tensor([0.5, 0.0]), "tensor([0.5000, 0.0000])"),
    (lambda: tensor([1.0, 2.0], dtype=facula.float64), "tensor([1., 2.], dtype=facula.float64)"),
    (lambda: tensor([1, 2], dtype=facula.int32), "tensor([1, 2], dtype=facula.int32)"),
    (lambda: tensor([1.5], dtype=facula.bfloat16), "tensor([1.5000], dtype=facula.bfloat16)"),
    (lambda: tensor([1 + 2j, -1.5 - 0.5j]), "tensor([ 1.0000+2.0000j, -1.5000-0.5000j])"),
    (lambda: tensor([1 + 2j]), "tensor([1.+2.j])"),
    (lambda: tensor([]), "tensor([])"),
    (lambda: tensor([], dtype=facula.int64), "tensor([], dtype=facula.int64)"),
    (lambda: facula.zeros(0, 3), "tensor([], size=(0, 3))"),
    (lambda: facula.zeros(2, 0, dtype=facula.int32), "tensor([], size=(2, 0), dtype=facula.int32)"),
    (lambda: facula.empty(2, 3, device="meta"), "tensor(..., device='meta', size=(2, 3))"),
    (lambda: facula.empty(2, device="meta", dtype=facula.int64),
     "tensor(..., device='meta', size=(2,), dtype=facula.int64)"),
    (lambda: facula.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
    (lambda: facula.ones(2, requires_grad=True) + facula.ones(2), "tensor([2., 2.], grad_fn=<AddBackward0>)"),
    (lambda: facula.zeros(1, 2, 2), "tensor([[[0., 0.],\n         [0., 0.]]])"),
    (lambda: facula.zeros(2, 1, 1), "tensor([[[0.]],\n\n        [[0.]]])"),
    (lambda: facula.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (lambda: facula.arange(30),
     "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
     "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"),
])
def test_texts(make, text):
    assert repr(make()) == text


def test_edges_of_matrices():
    text = repr(facula.zeros(40, 40))
    assert text == ("tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n" + "        [0., 0., 0.,  ..., 0., 0., 0.],\n" * 2 +
                    "        ...,\n" + "        [0., 0., 0.,  ..., 0., 0., 0.],\n" * 2 +
                    "        [0., 0., 0.,  ..., 0., 0., 0.]])")
    assert repr(facula.zeros(2, 600)) == ("tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n"
                                          "        [0., 0., 0.,  ..., 0., 0., 0.]])")


def test_large_tensors_read_their_edges_only():
    x = facula.zeros(1, dtype=facula.float32).expand(10**9)
    assert repr(x) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"


def test_options():
    facula.set_printoptions(precision=2)
    assert repr(tensor([1.23456])) == "tensor([1.23])"
    facula.set_printoptions(sci_mode=True)
    assert repr(tensor([1.5])) == "tensor([1.50e+00])"
    facula.set_printoptions(sci_mode=False, precision=4)
    assert repr(tensor([1e-5])) == "tensor([    0.0000])"
    facula.set_printoptions(profile="default")
    facula.set_printoptions(threshold=3, edgeitems=1)
    assert repr(facula.arange(5)) == "tensor([0,  ..., 4])"
    facula.set_printoptions(profile="full")
    assert "..." not in repr(facula.zeros(2000))
    facula.set_printoptions(profile="short")
    assert repr(tensor([0.125])) == "tensor([0.12])"
    facula.set_printoptions(profile="default", linewidth=20)
    assert repr(facula.arange(6)) == "tensor([0, 1, 2, 3,\n        4, 5])"
    with pytest.raises(ValueError, match="profile"):
        facula.set_printoptions(profile="nothing")


def test_long_lines_wrap_what_follows():
    x = facula.arange(20, dtype=facula.int32)
    assert repr(x) == ("tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
                       "        18, 19], dtype=facula.int32)")
    y = facula.ones(16, dtype=facula.float64)
    assert repr(y) == ("tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],\n"
                       "       dtype=facula.float64)")
