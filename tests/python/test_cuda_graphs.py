"""Graphs of GPU work from Python."""
import pytest
from gpu_support import close, needs_gpu

import facula

pytestmark = needs_gpu


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


def test_numbers_of_the_cpu_are_written_in_a_capture():
    x, mask = facula.zeros(6, device="cuda"), facula.tensor([True, False] * 3, device="cuda")
    index, value = facula.tensor([1, 3], device="cuda"), facula.tensor(2.0)
    for _ in range(2):  # the first compiles what is captured
        x.index_put_((mask,), facula.tensor(9.0))
        x.index_put_((index,), value)
    graph = facula.cuda.CUDAGraph()
    with facula.cuda.graph(graph):
        x.index_put_((mask,), facula.tensor(9.0))
        x.index_put_((index,), value)
    x.zero_()
    graph.replay()
    assert x.tolist() == [9.0, 2.0, 9.0, 2.0, 9.0, 0.0]
