"""Streams, events, threads and waits on GPUs from Python."""
import threading
import time

import pytest
from gpu_support import close, needs_gpu, two_devices

import facula

pytestmark = needs_gpu


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
