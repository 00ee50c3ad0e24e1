"""GPUs: which one is current, streams and events, graphs, memory, random numbers, kernels.

The device is called 'cuda' on NVIDIA and on AMD. Nothing has to be chosen: the driver and the vendor's run-time compiler
are loaded when they are there (NVIDIA's compiler does not come with the driver; `pip install nvidia-cuda-nvrtc` brings
it), and `is_available()` says whether there is a GPU.
"""
from typing import Any as _Any

from .. import _native
from .._native import DeviceError, OutOfMemoryError
from . import comm, graphs, jiterator, kernels, memory, nvtx, random
from ._streams import Event, ExternalStream, Stream, StreamContext, current_stream, default_stream
from ._streams import get_stream_from_external, set_stream, stream
from ._cudart import (
    CUDAPluggableAllocator, GdsFile, change_current_allocator, cudart, current_blas_handle, gds_deregister_buffer,
    gds_register_buffer)
from .graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables
from .kernels import Kernel, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from .memory import (
    MemPool, caching_allocator_alloc, caching_allocator_delete, caching_allocator_enable, empty_cache,
    get_allocator_backend, get_per_process_memory_fraction, host_memory_stats, host_memory_stats_as_nested_dict,
    list_gpu_processes,
    max_memory_allocated, max_memory_cached, max_memory_reserved, mem_get_info, memory_allocated, memory_cached,
    memory_reserved, memory_snapshot, memory_stats, memory_stats_as_nested_dict, memory_summary,
    reset_accumulated_host_memory_stats, reset_accumulated_memory_stats, reset_max_memory_allocated,
    reset_max_memory_cached, reset_peak_host_memory_stats, reset_peak_memory_stats, set_per_process_memory_fraction,
    use_mem_pool)
from .random import (
    Generator, get_rng_state, get_rng_state_all, initial_seed, manual_seed, manual_seed_all, seed, seed_all,
    set_rng_state, set_rng_state_all)
from ._devices import (
    can_device_access_peer, clock_rate, current_device, device, device_count, device_memory_used, device_of,
    get_arch_list, get_device_capability, get_device_name, get_device_properties, get_gencode_flags,
    get_sync_debug_mode, init, is_available, is_bf16_supported, is_initialized, is_tf32_supported, memory_usage,
    power_draw, set_device, set_sync_debug_mode, synchronize, temperature, utilization, why_not_available)

__all__ = [
    "AcceleratorError", "CUDAGraph", "CUDAPluggableAllocator", "DeviceError", "Event", "ExternalStream", "GdsFile",
    "Generator", "Kernel", "MemPool", "OutOfMemoryError", "Stream", "StreamContext", "caching_allocator_alloc", "caching_allocator_delete",
    "caching_allocator_enable", "can_device_access_peer", "change_current_allocator", "clock_rate", "comm", "cudart",
    "current_blas_handle", "current_device", "current_stream",
    "default_stream", "device", "device_count", "device_memory_used", "device_of", "empty_cache",
    "float32", "float64", "gds_deregister_buffer", "gds_register_buffer", "get_allocator_backend", "get_arch_list", "get_device_capability",
    "get_device_name", "get_device_properties", "get_gencode_flags", "get_per_process_memory_fraction",
    "get_rng_state", "get_rng_state_all", "get_stream_from_external", "get_sync_debug_mode", "graph",
    "graph_pool_handle", "graphs", "has_half", "host_memory_stats", "host_memory_stats_as_nested_dict", "init",
    "initial_seed", "int16", "int32", "int64", "int8", "ipc_collect", "is_available", "is_bf16_supported",
    "is_current_stream_capturing", "is_initialized", "is_tf32_supported", "jiterator", "kernels",
    "list_gpu_processes", "make_graphed_callables", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory", "memory_allocated", "memory_cached", "memory_reserved",
    "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "memory_usage", "nvtx",
    "power_draw", "random", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_host_memory_stats",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_per_process_memory_fraction", "set_rng_state",
    "set_rng_state_all", "set_stream", "set_sync_debug_mode", "stream", "synchronize", "temperature", "uint16",
    "uint32", "uint64", "uint8", "use_mem_pool", "utilization", "why_not_available"]

AcceleratorError = DeviceError
has_half = True


def ipc_collect() -> None:
    """Memory is not shared between processes yet: there is nothing to collect."""
    init()


def __getattr__(name: str) -> _Any:
    if name == "amp":  # its older name
        import importlib
        return importlib.import_module(".amp", __name__)
    if name == "default_generators":
        return tuple(_native._cuda._default_generator(i) for i in range(device_count()))
    raise AttributeError(f"module 'facula.cuda' has no attribute '{name}'")
