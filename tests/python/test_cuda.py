"""GPUs from Python. Runs where there is one: a real one, or the software one of tests/simgpu."""
import gc
import math
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import facula

pytestmark = pytest.mark.skipif(not facula.cuda.is_available(), reason=facula.cuda.why_not_available())
two_devices = pytest.mark.skipif(facula.cuda.device_count() < 2, reason="needs two devices")


def close(a, b, tolerance=1e-6):
    np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().cpu().numpy() if hasattr(b, "detach") else b,
                               rtol=tolerance, atol=tolerance)


@two_devices
def test_the_program_that_people_know():
    cuda = facula.device("cuda")
    cuda0 = facula.device("cuda:0")
    cuda2 = facula.device("cuda:1")
    x = facula.tensor([1., 2.], device=cuda0)
    y = facula.tensor([1., 2.]).cuda()
    assert x.device == cuda0 and y.device == cuda0
    with facula.cuda.device(1):
        a = facula.tensor([1., 2.], device=cuda)
        b = facula.tensor([1., 2.]).cuda()
        b2 = facula.tensor([1., 2.]).to(device=cuda)
        assert a.device == cuda2 and b.device == cuda2 and b2.device == cuda2
        c = a + b
        assert c.device == cuda2
        z = x + y
        assert z.device == cuda0
        d = facula.randn(2, device=cuda2)
        e = facula.randn(2).to(cuda2)
        f = facula.randn(2).cuda(cuda2)
        assert d.device == cuda2 and e.device == cuda2 and f.device == cuda2
    assert facula.cuda.current_device() == 0
    assert c.tolist() == [2., 4.] and z.tolist() == [2., 4.]
    with pytest.raises(RuntimeError, match="same device"):
        x + a


def test_devices():
    assert facula.cuda.device_count() >= 1
    facts = facula.cuda.get_device_properties(0)
    assert facts.total_memory > 0 and facts.multi_processor_count > 0 and facts.warp_size in (32, 64)
    assert facula.cuda.get_device_name() == facts.name and facts.name in repr(facts)
    assert facula.cuda.get_device_capability() == (facts.major, facts.minor)
    assert (facula.version.cuda is None) != (facula.version.hip is None)
    assert len(facula.cuda.get_arch_list()) >= 1
    with pytest.raises(RuntimeError, match="cuda:99"):
        facula.zeros(2, device="cuda:99")
    with pytest.raises(ValueError, match="Expected a cuda device"):
        facula.cuda.synchronize("cpu")
    facula.cuda.init()
    assert facula.cuda.is_initialized()


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


def test_the_same_seed_gives_the_same_numbers():
    for make in (lambda d: facula.rand(1001, device=d), lambda d: facula.randn(1001, device=d),
                 lambda d: facula.randint(0, 1000, (501,), device=d), lambda d: facula.randperm(100, device=d),
                 lambda d: facula.empty(77, dtype=facula.float64, device=d).exponential_(1.5)):
        facula.manual_seed(12)
        here = make("cpu")
        facula.manual_seed(12)
        there = make("cuda")
        assert facula.equal(here, there.cpu())


def test_generators():
    g = facula.Generator(device="cuda")
    g.manual_seed(5)
    a = facula.rand(10, device="cuda", generator=g)
    g.manual_seed(5)
    assert facula.equal(a, facula.rand(10, device="cuda", generator=g))
    with pytest.raises(RuntimeError, match="generator"):
        facula.rand(3, generator=g)
    last = facula.cuda.device_count() - 1
    h = facula.cuda.Generator(last).manual_seed(5)
    assert h.device == facula.device("cuda", last) and facula.cuda.Generator().device == facula.device("cuda", 0)
    assert facula.equal(a.cpu(), facula.rand(10, device=h.device, generator=h).cpu())
    state = facula.cuda.get_rng_state()
    first = facula.rand(4, device="cuda")
    facula.cuda.set_rng_state(state)
    assert facula.equal(first, facula.rand(4, device="cuda"))
    facula.cuda.manual_seed(9)
    assert facula.cuda.initial_seed() == 9
    assert len(facula.cuda.default_generators) == facula.cuda.device_count()
    before = facula.cuda.get_rng_state_all()
    with facula.random.fork_rng():
        facula.rand(4, device="cuda")
        assert not facula.equal(facula.cuda.get_rng_state(0), before[0])
    assert all(facula.equal(a, b) for a, b in zip(facula.cuda.get_rng_state_all(), before))
    facula.rand(4, device="cuda")
    facula.cuda.set_rng_state_all(before)
    assert facula.equal(facula.cuda.get_rng_state(), before[0])


def test_streams_and_events():
    s = facula.cuda.Stream()
    assert s != facula.cuda.default_stream() and s.device_index == 0
    start, end = facula.cuda.Event(enable_timing=True), facula.cuda.Event(enable_timing=True)
    x = facula.randn(1000, device="cuda")
    s.wait_stream(facula.cuda.current_stream())
    with facula.cuda.stream(s):
        assert facula.cuda.current_stream() == s
        start.record()
        y = x * 2 + 1
        end.record()
    x.record_stream(s)
    assert facula.cuda.current_stream() == facula.cuda.default_stream()
    facula.cuda.current_stream().wait_event(end)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    s.synchronize()
    assert s.query()
    close(y, x.cpu() * 2 + 1)
    least, greatest = facula.cuda.Stream.priority_range()
    assert greatest <= least
    assert facula.cuda.Stream(priority=-1).priority <= 0
    same = facula.cuda.ExternalStream(s.cuda_stream)
    assert same == s and hash(same) == hash(s)
    with pytest.raises(RuntimeError, match="timing|enable_timing"):
        e = facula.cuda.Event()
        e.record()
        e.elapsed_time(end)


def test_pinned_memory():
    x = facula.randn(500).pin_memory()
    assert x.is_pinned() and not facula.randn(3).is_pinned()
    there = x.to("cuda", non_blocking=True)
    back = facula.empty(500, pin_memory=True)
    back.copy_(there, non_blocking=True)
    facula.cuda.synchronize()
    assert facula.equal(back, x)
    with pytest.raises(RuntimeError, match="pin"):
        there.pin_memory()


def test_graphs():
    static = facula.zeros(64, device="cuda")
    side = facula.cuda.Stream()
    side.wait_stream(facula.cuda.current_stream())
    with facula.cuda.stream(side):
        static * 3 + 1
    facula.cuda.current_stream().wait_stream(side)
    graph = facula.cuda.CUDAGraph()
    with facula.cuda.graph(graph):
        assert facula.cuda.is_current_stream_capturing()
        out = static * 3 + 1
        noise = facula.rand(64, device="cuda")
    assert not facula.cuda.is_current_stream_capturing()
    for k in (1.0, 5.0):
        static.fill_(k)
        graph.replay()
        assert out.cpu().eq(3 * k + 1).all()
    facula.manual_seed(4)
    graph.replay()
    first = noise.clone()
    graph.replay()
    assert not facula.equal(first, noise)
    facula.manual_seed(4)
    expected = facula.rand(64)
    assert facula.equal(first.cpu(), expected)


def test_waiting_in_a_capture_is_an_error_and_all_goes_on():
    x = facula.ones(4, device="cuda")
    graph = facula.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="captur"):
        with facula.cuda.graph(graph):
            (x + 1).sum().item()
    assert (x + 1).sum().item() == 8


def test_graphed_callables():
    w = facula.randn(6, 6, device="cuda", requires_grad=True)

    def layer(x):
        return facula.tanh(x @ w)

    sample = facula.randn(3, 6, device="cuda", requires_grad=True)
    graphed = facula.cuda.make_graphed_callables(layer, (sample,))
    x = facula.randn(3, 6, device="cuda", requires_grad=True)
    out = graphed(x)
    close(out, layer(x), 1e-5)
    out.sum().backward()
    got = x.grad.clone()
    x.grad = None
    layer(x).sum().backward()
    close(got, x.grad, 1e-4)
    with pytest.raises(RuntimeError, match="sample"):
        graphed(facula.randn(4, 6, device="cuda"))


def test_memory_figures():
    gc.collect()
    facula.cuda.empty_cache()
    before = facula.cuda.memory_allocated()
    facula.cuda.reset_peak_memory_stats()
    x = facula.empty(1 << 20, device="cuda")
    assert facula.cuda.memory_allocated() - before >= 4 << 20
    assert facula.cuda.memory_reserved() >= facula.cuda.memory_allocated()
    del x
    assert facula.cuda.memory_allocated() == before
    assert facula.cuda.max_memory_allocated() - before >= 4 << 20
    stats = facula.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == before
    assert facula.cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] == before
    free, total = facula.cuda.mem_get_info()
    assert 0 < free <= total
    assert facula.cuda.cudart().cudaMemGetInfo(0)[1] == total
    assert facula.cuda.cudart().cudaError.success == 0
    assert not hasattr(facula.cuda.cudart(), "cudaHostRegister")
    with pytest.raises(AttributeError, match="cudaHostRegister.*pin_memory"):
        facula.cuda.cudart().cudaHostRegister(0, 0, 0)
    assert "allocated" in facula.cuda.memory_summary().lower()
    assert isinstance(facula.cuda.memory_snapshot(), list)


def test_out_of_memory_is_an_error_and_all_goes_on():
    _, total = facula.cuda.mem_get_info()
    with pytest.raises(facula.OutOfMemoryError, match="(?s)empty.*free.*reserved") as error:
        facula.empty(total * 2, dtype=facula.uint8, device="cuda")
    assert isinstance(error.value, MemoryError)
    assert facula.ones(3, device="cuda").sum().item() == 3


def test_history_and_snapshot(tmp_path):
    facula.cuda.memory._record_memory_history()
    held = facula.empty(3000, device="cuda")
    page = tmp_path / "memory.html"
    facula.cuda.memory._dump_snapshot(page)
    snapshot = facula.cuda.memory._snapshot()
    facula.cuda.memory._record_memory_history(enabled=None)
    assert page.read_text().startswith("<!doctype html>") and "test_history_and_snapshot" in page.read_text()
    made = [entry for entry in snapshot["device_traces"][0]
            if entry["action"] == "alloc" and entry["addr"] == held.data_ptr()]
    assert len(made) == 1 and made[0]["size"] >= 12000
    frame = made[0]["frames"][0]
    assert frame["filename"].endswith("test_cuda.py") and frame["name"] == "test_history_and_snapshot"
    assert "facula.empty(3000" in open(__file__).read().splitlines()[frame["line"] - 1]
    block = [b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == held.data_ptr()]
    assert len(block) == 1 and block[0]["state"] == "active_allocated" and block[0]["frames"] == made[0]["frames"]


def test_pools():
    pool = facula.cuda.MemPool()
    with facula.cuda.use_mem_pool(pool):
        inside = facula.empty(1000, device="cuda")
    outside = facula.empty(1000, device="cuda")
    addresses = {b["address"] for s in pool.snapshot() for b in s["blocks"] if b["state"] == "active_allocated"}
    assert inside.data_ptr() in addresses and outside.data_ptr() not in addresses


def test_host_memory_figures():
    facula.cuda.empty_cache()
    facula.cuda.reset_peak_host_memory_stats()
    before = facula.cuda.host_memory_stats()
    x = facula.empty(1 << 20, pin_memory=True)
    after = facula.cuda.host_memory_stats()
    assert after["allocated_bytes.current"] - before["allocated_bytes.current"] >= 4 << 20
    assert facula.cuda.host_memory_stats_as_nested_dict()["allocated_bytes"]["peak"] == after["allocated_bytes.peak"]
    del x
    facula.cuda.reset_peak_host_memory_stats()
    facula.cuda.reset_accumulated_host_memory_stats()
    now = facula.cuda.host_memory_stats()
    assert now["allocated_bytes.peak"] == now["allocated_bytes.current"] < after["allocated_bytes.peak"]
    assert now["allocations.allocated"] == 0


def test_memory_without_a_tensor():
    before = facula.cuda.memory_allocated()
    address = facula.cuda.caching_allocator_alloc(1 << 20)
    assert address and facula.cuda.memory_allocated() - before >= 1 << 20
    facula.cuda.caching_allocator_delete(address)
    assert facula.cuda.memory_allocated() == before


@pytest.mark.parametrize("ask", ["utilization", "memory_usage", "temperature", "power_draw", "clock_rate"])
def test_what_a_device_is_doing(ask):
    # The vendor's library may not be there, or may not know.
    try:
        value = getattr(facula.cuda, ask)()
    except NotImplementedError as error:
        assert str(error).startswith(ask + ":") and len(str(error)) > len(ask) + 20
    else:
        assert isinstance(value, int) and value >= 0


def test_processes():
    try:
        text = facula.cuda.list_gpu_processes()
    except NotImplementedError as error:
        assert str(error).startswith("list_gpu_processes:")
    else:
        assert text.startswith("GPU:0\n")
    free, total = facula.cuda.mem_get_info()
    assert 0 <= facula.cuda.device_memory_used() <= total


def test_kernels_of_ones_own():
    kernel = facula.cuda.Kernel("""
        extern "C" __global__ void axpy(float* y, const float* x, float a, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) y[i] += a * x[i];
        }""", "axpy")
    x, y = facula.randn(300, device="cuda"), facula.zeros(300, device="cuda")
    kernel(grid=2, block=256, args=[y, x, 2.5, 300])
    close(y, x.cpu() * 2.5)
    with pytest.raises(RuntimeError, match="(?s)broken.*nonsense"):
        facula.cuda.Kernel('extern "C" __global__ void broken() { nonsense; }  // must not compile', "broken").compile()
    with pytest.raises(RuntimeError, match="cpu"):
        kernel(grid=1, block=32, args=[y.cpu(), x, 1.0, 3])
    with pytest.raises(RuntimeError, match="block"):
        kernel(grid=1, block=(4096, 4, 4), args=[y, x, 1.0, 3])
    with pytest.raises(TypeError, match="argument 0"):
        kernel(grid=1, block=32, args=["text", x, 1.0, 3])
    with pytest.raises(ValueError, match="int64"):
        kernel(grid=1, block=32, args=[y, x, 1.0, 2**40])
    with pytest.raises(ValueError, match=r"axpy: 3 arguments were given, and the kernel takes 4: \(float\* y, "):
        kernel(grid=1, block=32, args=[y, x, 1.0])
    with pytest.raises(ValueError, match="argument 3 is an int of 64 bits, and the kernel declares int n"):
        kernel(grid=1, block=32, args=[y, x, 1.0, facula.cuda.int64(300)])
    with pytest.raises(TypeError, match=r"argument 0 is a tensor of float64, and the kernel declares float\* y"):
        kernel(grid=1, block=32, args=[y.double(), x, 1.0, 300])


def test_functions_of_ones_own():
    f = facula.cuda.jiterator._create_jit_fn(
        "template <typename T> T weighted(T x, T y, T alpha) { return -x + alpha * y; }", alpha=1.0)
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    rng = np.random.default_rng(seed)
    a = facula.tensor(rng.standard_normal((5, 700)).astype(np.float32), device="cuda")
    b = facula.tensor(rng.standard_normal((5, 1)).astype(np.float32), device="cuda")
    close(f(a, b), b.cpu() - a.cpu())
    close(f(a.t(), b.t(), alpha=2.5), 2.5 * b.t().cpu() - a.t().cpu())
    doubled = f(a, b.double(), alpha=0.1)
    assert doubled.dtype is facula.float64
    close(doubled, 0.1 * b.double().cpu() - a.cpu(), 1e-12)
    half = f(a.half(), b.half())
    assert half.dtype is facula.float16
    close(half.float(), (b.half().float() - a.half().float()).half().float())
    assert f(facula.arange(3, device="cuda"), facula.tensor([1, 2, 3], device="cuda"), alpha=2).tolist() == [2, 3, 4]
    assert f(a[:0], b[:0]).shape == (0, 700)
    both = facula.cuda.jiterator._create_multi_output_jit_fn(
        "template <typename T> void both(T x, T y, T& sum, T& product) { sum = x + y; product = x * y; }", 2)
    total, product = both(a, b)
    close(total, a.cpu() + b.cpu())
    close(product, a.cpu() * b.cpu())
    with pytest.raises(RuntimeError, match="weighted: expected tensors on one GPU, got cuda:0 and cpu"):
        f(a, b.cpu())
    with pytest.raises(ValueError, match="weighted: no default was given for beta; there are alpha"):
        f(a, b, beta=1)
    with pytest.raises(ValueError, match="broadcast"):
        f(a, b[:3])
    with pytest.raises(ValueError, match="template"):
        facula.cuda.jiterator._create_jit_fn("float f(float x) { return x; }")


def test_sized_arguments():
    cuda = facula.cuda
    kernel = cuda.Kernel("""
        extern "C" __global__ void sizes(double* out, signed char a, unsigned char b, short c, unsigned short d, int e,
                                         unsigned f, long long g, unsigned long long h, float i, double j, bool k) {
          const double all[] = {double(a), double(b), double(c), double(d), double(e), double(f), double(g), double(h),
                                double(i), j, double(k)};
          for (int n = 0; n < 11; ++n) out[n] = all[n];
        }""", "sizes")
    out = facula.zeros(11, dtype=facula.float64, device="cuda")
    kernel(grid=1, block=1, args=[out, cuda.int8(-128), cuda.uint8(255), cuda.int16(-32768), cuda.uint16(65535),
                                  cuda.int32(-5), cuda.uint32(2**32 - 1), cuda.int64(-2**40), cuda.uint64(2**63),
                                  cuda.float32(0.5), cuda.float64(0.1), True])
    assert out.tolist() == [-128, 255, -32768, 65535, -5, 2**32 - 1, -2**40, 2**63, 0.5, 0.1, 1]
    with pytest.raises(ValueError, match="int8.*300.*127"):
        cuda.int8(300)
    with pytest.raises(TypeError):
        cuda.int32(1.5)


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


def test_waits_can_be_errors():
    x = facula.ones(2, device="cuda")
    facula.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="item.*waits"):
            x.sum().item()
        x + 1
    finally:
        facula.cuda.set_sync_debug_mode("default")
    assert x.sum().item() == 2


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


def test_threads_have_their_own_current_device_and_stream():
    seen = []

    def work():
        s = facula.cuda.Stream()
        with facula.cuda.stream(s):
            x = facula.ones(100, device="cuda") * 2
        s.synchronize()
        seen.append((x.sum().item(), facula.cuda.current_stream() == facula.cuda.default_stream()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [(200.0, True)] * 4


def test_waiting_lets_other_threads_go_on():
    slow = facula.cuda.Kernel("""
        extern "C" __global__ void slow(double* x, int n) {
          double v = x[0];
          for (int i = 0; i < n; ++i) v = v * 0.9999999 + 1e-9;
          x[0] = v;
        }""", "slow")
    slow.compile()
    ticks, over = [], threading.Event()

    def tick():
        while not over.is_set():
            ticks.append(None)
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        for read in (lambda x: x.item(), lambda x: x.cpu(), lambda x: x.tolist(), bool):
            # A busy machine may hold the other thread up for reasons of its own.
            for attempt in range(5):
                x = facula.ones(1, dtype=facula.float64, device="cuda")
                slow(grid=1, block=1, args=[x, 50_000_000])
                before, start = len(ticks), time.monotonic()
                read(x)
                took, ticked = time.monotonic() - start, len(ticks) - before
                if took < 0.05 or ticked >= 3:
                    break
            else:
                raise AssertionError((took, ticked))
    finally:
        over.set()
        thread.join()


def test_a_fork_after_the_start_is_an_error_in_words():
    program = """
import os, facula
facula.ones(2, device='cuda')
read, write = os.pipe()
if os.fork() == 0:
    try:
        facula.ones(2, device='cuda')
        text = 'no error'
    except RuntimeError as e:
        text = str(e)
    os.write(write, text.encode())
    os._exit(0)
os.close(write)
os.wait()
print(os.read(read, 10000).decode())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "fork" in done.stdout and "spawn" in done.stdout, done.stdout + done.stderr


@two_devices
def test_two_devices():
    x = facula.randn(100, device="cuda:0")
    y = x.to("cuda:1")
    assert y.device.index == 1 and facula.equal(x.cpu(), y.cpu())
    parts = facula.cuda.comm.scatter(x, [0, 1])
    assert [p.device.index for p in parts] == [0, 1]
    assert facula.equal(facula.cuda.comm.gather(parts, destination=1).cpu(), x.cpu())
    total = facula.cuda.comm.reduce_add([x, y], 0)
    close(total, x.cpu() * 2)
    with facula.cuda.device_of(y):
        assert facula.cuda.current_device() == 1
    assert facula.cuda.can_device_access_peer(0, 1) in (True, False)


@two_devices
def test_copies_on_several_devices():
    x = facula.arange(6.).reshape(2, 3).cuda()
    copies = facula.cuda.comm.broadcast(x, [0, "cuda:1"])
    assert [c.device.index for c in copies] == [0, 1]
    assert [c.tolist() for c in copies] == 2 * [[[0., 1., 2.], [3., 4., 5.]]]
    into = [facula.zeros(2, 3, device="cuda:1"), facula.ones(2, 3, device="cuda:0")]
    given = facula.cuda.comm.broadcast(x, out=into)
    assert given[0] is into[0] and given[1] is into[1] and len(given) == 2
    assert all(t.tolist() == x.tolist() for t in into)
    for wrong in ({}, {"devices": [0], "out": into}):
        with pytest.raises(ValueError, match="Exactly one of 'devices' and 'out'"):
            facula.cuda.comm.broadcast(x, **wrong)

    y = facula.tensor([7, 8], device="cuda")
    lists = facula.cuda.comm.broadcast_coalesced([x, y], [1, 0])
    assert [[t.device.index for t in tensors] for tensors in lists] == [[1, 1], [0, 0]]
    assert all(a.tolist() == x.tolist() and b.tolist() == [7, 8] and b.dtype is facula.int64 for a, b in lists)

    sums = facula.cuda.comm.reduce_add_coalesced([[x, y], [(x * 10).to("cuda:1"), y.to("cuda:1") + 1]], destination=1)
    assert [t.device.index for t in sums] == [1, 1]
    assert sums[0].tolist() == [[0., 11., 22.], [33., 44., 55.]] and sums[1].tolist() == [15, 17]
    assert x.tolist() == [[0., 1., 2.], [3., 4., 5.]] and y.tolist() == [7, 8], "what was added is as before"
    with pytest.raises(facula.ShapeError, match=r"input 1 has shape \(3,\), input 0 has \(2,\)"):
        facula.cuda.comm.reduce_add([y, facula.ones(3, dtype=facula.int64, device="cuda:1")], 0)


def test_streams_by_handle_and_by_block():
    cuda = facula.cuda
    default, side = cuda.default_stream(), cuda.Stream()
    same = cuda.get_stream_from_external(side.cuda_stream, "cuda:0")
    assert isinstance(same, cuda.ExternalStream) and same == side and same.device_index == 0
    with cuda.StreamContext(same):
        assert cuda.current_stream() == side
        x = facula.ones(3, device="cuda") + 1
        with cuda.StreamContext(None):  # changes nothing
            assert cuda.current_stream() == side
        with cuda.StreamContext(default):
            assert cuda.current_stream() == default
        assert cuda.current_stream() == side
    assert cuda.current_stream() == default
    same.synchronize()
    assert x.tolist() == [2., 2., 2.]
    with pytest.raises(RuntimeError, match="^out of the block$"):
        with cuda.StreamContext(side):
            raise RuntimeError("out of the block")
    assert cuda.current_stream() == default
    cuda.set_stream(None)
    assert cuda.current_stream() == default
    cuda.set_stream(side)
    try:
        assert cuda.current_stream() == side
        # A thread's stream is its own.
        seen = []
        thread = threading.Thread(target=lambda: seen.append(cuda.current_stream()))
        thread.start()
        thread.join()
        assert seen == [default]
    finally:
        cuda.set_stream(default)


@two_devices
def test_a_stream_brings_its_device():
    cuda = facula.cuda
    other = cuda.Stream("cuda:1")
    with cuda.StreamContext(other):
        assert cuda.current_device() == 1 and cuda.current_stream() == other
        assert facula.ones(2, device="cuda").device.index == 1
    assert cuda.current_device() == 0 and cuda.current_stream(1) == cuda.default_stream(1)
    cuda.set_stream(other)
    try:
        assert cuda.current_device() == 1 and cuda.current_stream(0) == cuda.default_stream(0)
    finally:
        cuda.set_stream(cuda.default_stream(1))
        cuda.set_device(0)


def test_seeds_from_the_system():
    cuda = facula.cuda
    before = [g.initial_seed() for g in cuda.default_generators]
    try:
        first, second = cuda.seed(), cuda.seed()
        assert first != second and cuda.initial_seed() == second
        drawn = facula.rand(8, device="cuda")
        cuda.manual_seed(second)
        assert facula.equal(facula.rand(8, device="cuda"), drawn)
        assert [g.initial_seed() for g in cuda.default_generators][1:] == before[1:], "only the current device"
        assert cuda.seed_all() is None
        seeds = {g.initial_seed() for g in cuda.default_generators}
        assert len(seeds) == 1 and seeds != {second}
        drawn = [facula.rand(8, device=g.device).tolist() for g in cuda.default_generators]
        assert all(d == drawn[0] for d in drawn)
    finally:
        for generator, seed in zip(cuda.default_generators, before):
            generator.manual_seed(seed)


def test_sums_of_memory_figures_begin_again():
    x = facula.empty(1 << 18, device="cuda")
    facula.cuda.reset_accumulated_memory_stats()
    stats = facula.cuda.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == 0 and stats["allocation.all.freed"] == 0
    assert stats["allocated_bytes.all.current"] >= 1 << 20, "what is held stays"
    del x
    y = facula.empty(1 << 10, device="cuda")
    stats = facula.cuda.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == 4096 and stats["allocated_bytes.all.freed"] == 1 << 20
    assert stats["allocation.all.allocated"] == 1 and stats["allocation.all.freed"] == 1
    del y


def test_a_share_of_the_memory():
    cuda = facula.cuda
    assert cuda.get_per_process_memory_fraction() == 1.0
    gc.collect()
    cuda.empty_cache()
    total = cuda.mem_get_info()[1]
    fraction = (cuda.memory_reserved() + (64 << 20)) / total
    cuda.set_per_process_memory_fraction(fraction)
    try:
        assert cuda.get_per_process_memory_fraction("cuda:0") == pytest.approx(fraction)
        with pytest.raises(facula.cuda.OutOfMemoryError, match="may reserve"):
            facula.empty(128 << 20, dtype=facula.uint8, device="cuda")
        assert facula.zeros(1 << 20, dtype=facula.uint8, device="cuda").sum().item() == 0
    finally:
        cuda.set_per_process_memory_fraction(1.0, 0)
    assert facula.empty(128 << 20, dtype=facula.uint8, device="cuda").numel() == 128 << 20
    for wrong in (-0.5, 1.5):
        with pytest.raises(ValueError, match=f"got {wrong}"):
            cuda.set_per_process_memory_fraction(wrong)


def test_memory_can_go_back_at_once():
    cuda = facula.cuda

    def calls():
        stats = cuda.memory_stats()
        return stats["num_device_alloc"], stats["num_device_free"]

    def three():
        for _ in range(3):
            facula.empty(5000, device="cuda")

    gc.collect()
    three()
    made, freed = calls()
    three()
    assert calls() == (made, freed), "it is kept for the next"
    cuda.caching_allocator_enable(False)
    try:
        reserved = cuda.memory_reserved()
        three()
        assert calls() == (made + 3, freed + 3) and cuda.memory_reserved() == reserved
    finally:
        cuda.caching_allocator_enable(True)
    three()
    assert calls() == (made + 3, freed + 3)


def test_graphs_share_a_pool():
    cuda = facula.cuda
    pool = cuda.graph_pool_handle()
    assert isinstance(pool, tuple) and len(pool) == 2 and pool != cuda.graph_pool_handle()
    x = facula.ones(1000, device="cuda")
    x * 2 + 1  # compiles what is captured
    first, second = cuda.CUDAGraph(), cuda.CUDAGraph()
    with cuda.graph(first, pool=pool):
        y = x * 2
    with cuda.graph(second, pool=pool):
        z = y + 1
    assert first.pool() == second.pool() == pool
    held = {b["address"] for s in cuda.memory_snapshot(pool) for b in s["blocks"] if b["state"] == "active_allocated"}
    assert {y.data_ptr(), z.data_ptr()} <= held and x.data_ptr() not in held
    x.fill_(5)
    first.replay()
    second.replay()
    assert y.unique().tolist() == [10.] and z.unique().tolist() == [11.]


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


def test_anomaly_mode_looks_at_results_but_not_into_captures():
    x = facula.tensor([2.0, -1.0], device="cuda")
    graph = facula.cuda.CUDAGraph()
    with facula.autograd.detect_anomaly():
        with pytest.raises(facula.NanError, match=r"^log: .* self Float \[2\] on cuda:0 from -1 to 2\."):
            x.log()
        with facula.cuda.stream(facula.cuda.Stream()):
            graph.capture_begin()
            y = x.log()
            graph.capture_end()
    graph.replay()
    facula.cuda.synchronize()
    assert y.isnan().tolist() == [False, True]
