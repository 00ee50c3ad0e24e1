"""Memory of GPUs from Python: figures, limits, pools, history, page-locked memory."""
import gc

import pytest
from gpu_support import needs_gpu

import facula

pytestmark = needs_gpu


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


def test_out_of_memory_is_an_error_and_all_goes_on():
    _, total = facula.cuda.mem_get_info()
    with pytest.raises(facula.OutOfMemoryError, match="(?s)empty.*free.*reserved") as error:
        facula.empty(total * 2, dtype=facula.uint8, device="cuda")
    assert isinstance(error.value, MemoryError)
    assert facula.ones(3, device="cuda").sum().item() == 3


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
    assert frame["filename"].endswith("test_cuda_memory.py") and frame["name"] == "test_history_and_snapshot"
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
