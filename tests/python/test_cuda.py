"""Tensors on GPUs from Python: copies, ops, gradients, exchange with others. Other topics are in test_cuda_*.py."""
import math
import pickle

import numpy as np
import pytest
from gpu_support import close, needs_gpu

import facula

pytestmark = needs_gpu


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.float16, facula.bfloat16, facula.int64,
                                   facula.int32, facula.uint8, facula.bool, facula.complex64])
def test_copies_keep_values(dtype):
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    rng = np.random.default_rng(seed)
    x = facula.tensor(rng.integers(0, 2 if dtype is facula.bool else 100, (5, 7, 3))).to(dtype)
    there = x.cuda()
    assert there.is_cuda and there.dtype is dtype and there.shape == x.shape
    assert facula.equal(there.cpu(), x)
    assert facula.equal(there.permute(2, 0, 1).cpu(), x.permute(2, 0, 1))
    assert facula.equal(there[:, ::2, 1:].cpu(), x[:, ::2, 1:])
    target = facula.zeros(3, 7, 5, dtype=dtype, device="cuda").permute(2, 1, 0)
    target.copy_(x)
    assert facula.equal(target.cpu(), x)
    assert facula.equal(there.to("cpu", facula.float64 if not dtype.is_complex else facula.complex128),
                        x.to(facula.float64 if not dtype.is_complex else facula.complex128))


def test_numbers_and_printing():
    x = facula.tensor([1.5, -2.0, 3.0], device="cuda")
    assert x[1].item() == -2.0 and x.tolist() == [1.5, -2.0, 3.0] and float(x[0]) == 1.5
    assert repr(x) == "tensor([ 1.5000, -2.0000,  3.0000], device='cuda:0')"
    assert x.type() == "facula.cuda.FloatTensor" and x.get_device() == 0
    with pytest.raises(TypeError, match="cpu"):
        x.numpy()
    assert (x + facula.tensor(2.0)).tolist() == [3.5, 0.0, 5.0]


def test_ops_against_the_cpu():
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    rng = np.random.default_rng(seed)
    a = facula.tensor(rng.standard_normal((17, 33)).astype(np.float32))
    b = facula.tensor(rng.standard_normal((33,)).astype(np.float32))
    ga, gb = a.cuda(), b.cuda()
    close(facula.sigmoid(ga * gb + ga) * facula.tanh(gb) - ga, facula.sigmoid(a * b + a) * facula.tanh(b) - a)
    close(ga.t().contiguous(), a.t())
    for f in (lambda t: t.sum(), lambda t: t.sum(0), lambda t: t.mean(1), lambda t: t.var(1), lambda t: t.logsumexp(0),
              lambda t: t.max(1).values, lambda t: t.std(), lambda t: t.norm(), lambda t: facula.softmax(t, -1)):
        close(f(ga), f(a), 1e-5)
    assert facula.equal(ga.argmax(1).cpu(), a.argmax(1))
    close(ga @ ga.t(), a @ a.t(), 1e-4)
    close(facula.cat([ga, ga[:3]]), facula.cat([a, a[:3]]))
    close(facula.tril(ga), facula.tril(a))


def test_gradients():
    rng = np.random.default_rng(3)
    data = rng.standard_normal((8, 16)).astype(np.float32)
    results = []
    for device in ("cpu", "cuda"):
        w = facula.tensor(data, device=device, requires_grad=True)
        x = facula.tensor(data[::-1].copy(), device=device)
        loss = (facula.tanh(x @ w.t()).pow(2).mean() + w.exp().sum() * 0.01)
        loss.backward()
        assert w.grad.device.type == device
        results.append((loss.item(), w.grad.cpu()))
    assert math.isclose(results[0][0], results[1][0], rel_tol=1e-5)
    close(results[1][1], results[0][1], 1e-4)


def test_division_by_zero_is_reported_and_all_goes_on():
    x = facula.tensor([4, 5, 6], device="cuda")
    with pytest.raises(RuntimeError, match="(?i)zero"):
        (x // facula.tensor([1, 0, 2], device="cuda")).tolist()
    assert (x // 2).tolist() == [2, 2, 3]


def test_dlpack_shares_memory():
    x = facula.arange(6, device="cuda")
    y = facula.from_dlpack(x)
    y += 1
    assert x.tolist() == [1, 2, 3, 4, 5, 6] and y.data_ptr() == x.data_ptr()
    assert x.__dlpack_device__()[0] in (2, 10)


def test_other_libraries_find_the_memory():
    x = facula.arange(12., device="cuda").reshape(3, 4)
    found = x.__cuda_array_interface__
    assert found["shape"] == (3, 4) and found["typestr"] == "<f4" and found["strides"] is None
    assert found["data"] == (x.data_ptr(), False) and found["version"] == 3 and found["stream"] == 1
    turned = x.t()[1:].__cuda_array_interface__
    assert turned["shape"] == (3, 3) and turned["strides"] == (4, 16) and turned["data"][0] == x.data_ptr() + 4
    for dtype, name in ((facula.bool, "|b1"), (facula.uint8, "|u1"), (facula.int8, "|i1"), (facula.int64, "<i8"),
                        (facula.float16, "<f2"), (facula.complex64, "<c8"), (facula.bfloat16, "<V2")):
        assert facula.zeros(2, dtype=dtype, device="cuda").__cuda_array_interface__["typestr"] == name
    assert facula.ones(0, device="cuda").__cuda_array_interface__["data"] == (0, False)
    with facula.cuda.stream(facula.cuda.Stream()):
        assert x.__cuda_array_interface__["stream"] == facula.cuda.current_stream().cuda_stream
    assert not hasattr(x.cpu(), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="detach"):
        x.requires_grad_().__cuda_array_interface__


@pytest.mark.parametrize("protocol", [2, 5])
def test_pickles(protocol):
    x = facula.arange(6., device="cuda").reshape(2, 3).t().requires_grad_()
    back = pickle.loads(pickle.dumps(x, protocol))
    assert back.device == x.device and back.stride() == x.stride() and back.requires_grad and back.is_leaf
    assert facula.equal(back, x) and back.data_ptr() != x.data_ptr()
    assert pickle.loads(pickle.dumps(facula.ones(0, device="cuda"), protocol)).is_cuda
    g = facula.Generator(device="cuda").manual_seed(3)
    same = pickle.loads(pickle.dumps(g, protocol))
    assert facula.equal(facula.rand(5, generator=g, device="cuda"), facula.rand(5, generator=same, device="cuda"))


def test_medians_and_repeats_stay_on_the_device():
    x = facula.tensor([[3., 1., 2., 2.], [5., float("nan"), 0., float("nan")]], device="cuda")
    values, indices = x.median(1)
    assert values.is_cuda and indices.is_cuda
    assert values[0].item() == 2 and values[1].isnan().item() and indices.tolist() == [2, 1]
    assert x[0].median().item() == 2 and x.median().isnan().item()
    counts = facula.tensor([2, 0, 1, 3], device="cuda")
    assert x[0].repeat_interleave(counts).tolist() == [3, 3, 2, 2, 2, 2]
    assert facula.repeat_interleave(counts).tolist() == [0, 0, 2, 3, 3, 3]
    with pytest.raises(ValueError, match="can not be negative, but entry 1 is -1"):
        x.repeat_interleave(facula.tensor([3, -1], device="cuda"), 0)
    facula.cuda.set_sync_debug_mode("error")
    try:
        repeated = x[0].repeat_interleave(counts, output_size=6)
        middle = x[0].median()
    finally:
        facula.cuda.set_sync_debug_mode("default")
    assert repeated.tolist() == [3, 3, 2, 2, 2, 2] and middle.item() == 2


def test_ranges_do_no_harm():
    with facula.cuda.nvtx.range("work {}", 3):
        facula.cuda.nvtx.mark("here")
    facula.cuda.nvtx.range_push("a")
    facula.cuda.nvtx.range_pop()


def test_figures_of_products():
    matmul = facula.backends.cuda.matmul
    assert facula.get_float32_matmul_precision() == "highest" and matmul.allow_tf32 is False
    try:
        facula.set_float32_matmul_precision("medium")
        assert matmul.allow_tf32 is True
        matmul.allow_tf32 = False
        assert facula.get_float32_matmul_precision() == "highest"
        matmul.allow_tf32 = True
        assert facula.get_float32_matmul_precision() == "high"
        x = facula.randn(40, 50, device="cuda")
        close(x @ x.t(), x.cpu() @ x.cpu().t(), 1e-1)
        for name in ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction",
                     "allow_fp16_accumulation"):
            before = getattr(matmul, name)
            setattr(matmul, name, not before)
            assert getattr(matmul, name) is not before
            setattr(matmul, name, before)
    finally:
        facula.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError, match="exact"):
        facula.set_float32_matmul_precision("exact")
    with pytest.raises(TypeError, match="allow_tf32"):
        matmul.allow_tf32 = 1
    with pytest.raises(AttributeError):
        matmul.allow_tf23 = True


def test_indices_of_the_cpu_point_into_tensors_of_the_gpu():
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    truth = np.random.default_rng(seed).standard_normal((5, 7)).astype(np.float32)
    x = facula.tensor(truth, device="cuda")
    rows, mask = [3, 0, 3], truth[:, 0] > 0
    for index in (rows, np.array(rows), facula.tensor(rows), facula.tensor(rows, device="cuda")):
        assert x[index].is_cuda and np.array_equal(x[index].cpu().numpy(), truth[rows])
        assert np.array_equal(x[:, index].cpu().numpy(), truth[:, rows])
    assert np.array_equal(x[facula.tensor(mask)].cpu().numpy(), truth[mask])
    assert np.array_equal(x[facula.tensor([1, 2]), facula.tensor([0, 6], device="cuda")].cpu().numpy(),
                          truth[[1, 2], [0, 6]])

    x[[4, 2]] = facula.tensor([1.0, 2.0], device="cuda")[:, None]
    truth[[4, 2]] = np.array([[1.0], [2.0]], np.float32)
    x[facula.tensor(mask)] = 5.0
    truth[mask] = 5.0
    x.index_put_((facula.tensor([1, 3]),), facula.tensor(-1.5), accumulate=True)
    truth[[1, 3]] += -1.5
    assert np.array_equal(x.cpu().numpy(), truth)
    with pytest.raises(facula.DeviceError, match="same device"):
        x[[0]] = facula.ones(7)
    with pytest.raises(facula.DeviceError, match="same device"):
        facula.ones(3)[facula.tensor([1], device="cuda")]

    w = facula.tensor(truth, device="cuda", requires_grad=True)
    (w[rows] * facula.arange(3, device="cuda")[:, None]).sum().backward()
    expected = np.zeros_like(truth)
    np.add.at(expected, rows, np.arange(3, dtype=np.float32)[:, None])
    assert np.array_equal(w.grad.cpu().numpy(), expected)


def test_gradients_of_two_devices_meet_in_one_backward():
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(1 << 13) for _ in range(2))  # large enough for chains of pointwise gradients
    here = facula.tensor(a, requires_grad=True)
    there = facula.tensor(b, device="cuda", requires_grad=True)
    facula.autograd.backward([there.sigmoid().tanh(), here.sigmoid().tanh()],
                             [facula.ones(1 << 13, dtype=facula.float64, device="cuda"),
                              facula.ones(1 << 13, dtype=facula.float64)])
    for x, value in ((here, a), (there, b)):
        s = 1 / (1 + np.exp(-value))
        assert np.allclose(x.grad.cpu().numpy(), s * (1 - s) * (1 - np.tanh(s) ** 2), rtol=1e-12, atol=1e-14)
