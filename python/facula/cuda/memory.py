"""Memory of GPUs: how much is used and kept, limits, history."""
import collections
import contextlib
import itertools
import json
from typing import Any, Iterator

from .. import _native
from ._devices import Device, index_of
from ._streams import Stream, current_stream

_cuda = _native._cuda

__all__ = ["MemPool", "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_enable", "empty_cache",
           "get_allocator_backend", "get_per_process_memory_fraction", "host_memory_stats",
           "host_memory_stats_as_nested_dict", "list_gpu_processes", "max_memory_allocated", "max_memory_cached",
           "max_memory_reserved",
           "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats",
           "memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_host_memory_stats",
           "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
           "reset_peak_host_memory_stats", "reset_peak_memory_stats", "set_per_process_memory_fraction",
           "use_mem_pool"]


def memory_stats(device: Device = None) -> "dict[str, int]":
    """All there is to know, by name: 'allocated_bytes.all.current', 'num_ooms', ...; empty before a GPU is used."""
    if not _cuda._is_initialized():
        return collections.OrderedDict()
    return collections.OrderedDict(sorted(_cuda._memory_stats(index_of(device))))


def _nested(flat: "dict[str, int]") -> "dict[str, Any]":
    result: "dict[str, Any]" = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        place = result
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return result


def memory_stats_as_nested_dict(device: Device = None) -> "dict[str, Any]":
    """The numbers of memory_stats as dicts within dicts."""
    return _nested(memory_stats(device))


def host_memory_stats() -> "dict[str, int]":
    """The same of page-locked memory of the cpu."""
    return collections.OrderedDict(sorted(_cuda._host_memory_stats()))


def host_memory_stats_as_nested_dict() -> "dict[str, Any]":
    """The numbers of host_memory_stats as dicts within dicts."""
    return _nested(host_memory_stats())


def memory_allocated(device: Device = None) -> int:
    """Bytes in tensors."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes in tensors since the start, or since reset_peak_memory_stats."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the driver."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes taken from the driver."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: Device = None) -> None:
    """Peaks start again at what is now."""
    _cuda._reset_peak_memory_stats(index_of(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sums since the start begin at 0 again."""
    _cuda._reset_accumulated_memory_stats(index_of(device))


def reset_peak_host_memory_stats() -> None:
    """Peaks of page-locked memory start again at what is now."""
    _cuda._reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Sums of page-locked memory begin at 0 again."""
    _cuda._reset_accumulated_host_memory_stats()


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table for people."""
    return _cuda._memory_summary(index_of(device), abbreviated)


def list_gpu_processes(device: Device = None) -> str:
    """Which processes use a device and how much memory each of them has, as text for people."""
    return _cuda._list_gpu_processes(index_of(device))


def mem_get_info(device: Device = None) -> "tuple[int, int]":
    """(free, total) bytes of the device, as the driver sees them."""
    return _cuda._mem_get_info(index_of(device))


def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the driver."""
    _cuda._empty_cache()


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """How much of the device's memory this process may take: 0 to 1."""
    _cuda._set_memory_fraction(float(fraction), index_of(device))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """How much of the device's memory this process may take."""
    return _cuda._get_memory_fraction(index_of(device))


def caching_allocator_enable(value: bool = True) -> None:
    """Off: the memory of every tensor comes from the driver and goes back to it."""
    _cuda._caching_allocator_enable(bool(value))


def get_allocator_backend() -> str:
    """'native': the allocator is Facula's own."""
    return "native"


def caching_allocator_alloc(size: int, device: Device = None, stream: Any = None) -> int:
    """The address of memory without a tensor, for a stream."""
    if stream is None:
        stream = current_stream(device)
    elif isinstance(stream, int):
        stream = Stream._of(_cuda._Stream._external(stream, index_of(device)))
    return _cuda._caching_allocator_alloc(size, stream._native)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Gives back what caching_allocator_alloc gave."""
    _cuda._caching_allocator_delete(mem_ptr)


def memory_snapshot(mempool_id: Any = None) -> "list[dict[str, Any]]":
    """The segments of the allocator with their blocks, as a list of dicts; of one pool only, where its id is given."""
    segments = _snapshot()["segments"]
    if mempool_id is None:
        return segments
    return [s for s in segments if tuple(s["segment_pool_id"]) == tuple(mempool_id)]


def _snapshot(device: Device = None) -> "dict[str, Any]":
    """Segments, history and settings, as a dict."""
    found = json.loads(_cuda._memory_snapshot())
    # The text has each stack once; here everybody gets the frames themselves.
    stacks = found.pop("stacks")
    blocks = [block for segment in found["segments"] for block in segment["blocks"]]
    for entry in itertools.chain(found["segments"], blocks, *found["device_traces"]):
        stack = entry.pop("stack", None)
        entry["frames"] = [] if stack is None else stacks[stack]
    if device is not None:
        only = index_of(device)
        found["segments"] = [s for s in found["segments"] if s["device"] == only]
        found["device_traces"] = [t if i == only else [] for i, t in enumerate(found["device_traces"])]
    return found


def _dump_snapshot(filename: Any = "dump_snapshot.html") -> None:
    """Writes a page that shows the memory (.html), or the snapshot itself as JSON."""
    _cuda._dump_snapshot(str(filename))


def _record_memory_history(
    enabled: Any = "all", context: Any = "all", stacks: Any = "all", max_entries: int = 100000,
    **_: Any
) -> None:
    """Remembers allocations with the stack of Python, so that a snapshot can tell who holds what; None ends it."""
    _cuda._record_memory_history(bool(enabled), context is not None and stacks is not None, int(max_entries))


class MemPool:
    """Memory apart from all other."""

    def __init__(self) -> None:
        self._native = _cuda._MemPool()

    id = property(lambda self: self._native.id)

    def snapshot(self) -> "list[dict[str, Any]]":
        """Its segments, as memory_snapshot gives them."""
        return memory_snapshot(self.id)


@contextlib.contextmanager
def use_mem_pool(pool: Any, device: Device = None) -> "Iterator[None]":
    """What is allocated inside the block comes from the pool."""
    context = _cuda._MemPoolContext(pool._native, index_of(device))
    try:
        yield
    finally:
        context._end()
