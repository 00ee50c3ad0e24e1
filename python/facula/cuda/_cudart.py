"""PyTorch's names that stand for things which Facula does not load or does not let go of. Programs find them, and are told
what to use instead."""
import enum
from typing import Any, NoReturn

from .. import _native
from ._devices import Device, init
from .memory import mem_get_info

__all__ = ["CUDAPluggableAllocator", "GdsFile", "change_current_allocator", "cudart", "current_blas_handle",
           "gds_deregister_buffer", "gds_register_buffer"]


class _cudaError(enum.IntEnum):
    """What a call gives back; what fails raises an exception instead."""

    success = 0


class _Cudart:
    """What programs call on CUDA's runtime, made of the driver that is there: NVIDIA's or AMD's."""

    cudaError = _cudaError

    def cudaMemGetInfo(self, device: Device = None) -> "tuple[int, int]":
        """(free, total) bytes of the device, as the driver sees them."""
        return mem_get_info(device)

    def __getattr__(self, name: str) -> NoReturn:
        instead = {
            "cudaHostRegister": "Tensor.pin_memory() gives page-locked memory",
            "cudaHostUnregister": "Tensor.pin_memory() gives page-locked memory, which goes with its tensor",
            "cudaProfilerStart": "a profiler that is told to record from the start needs no call, and "
                                 "facula.cuda.nvtx.range() marks what it shows",
            "cudaProfilerStop": "facula.cuda.nvtx.range() marks what a profiler shows",
            "cudaStreamCreate": "facula.cuda.Stream() makes a stream",
            "cudaStreamDestroy": "a stream goes with its facula.cuda.Stream()",
            "cudaGetErrorString": "errors are exceptions, and their text says what the driver said",
        }.get(name, "facula.cuda has what programs need of it")
        # Such that hasattr() answers.
        raise AttributeError(f"cudart(): {name} is not there, since CUDA's runtime is not loaded; {instead}")


def cudart() -> _Cudart:
    """An object with `cudaMemGetInfo` and `cudaError`. CUDA's runtime itself is not loaded: Facula calls the driver."""
    init()
    return _Cudart()


def current_blas_handle() -> int:
    """Not supported: products go to cuBLASLt, hipBLASLt or to kernels of our own, and there is no handle to share."""
    raise _native.NotSupportedError(
        "current_blas_handle(): there is no handle of cuBLAS: matrix products go to cuBLASLt or hipBLASLt where they are "
        "installed, and else to kernels of our own. Make a handle of your own, and have it work on "
        "facula.cuda.current_stream().cuda_stream")


class CUDAPluggableAllocator:
    """Not supported: the allocator knows streams, graphs and history, and cannot be swapped."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        _refuse_allocator("CUDAPluggableAllocator")


def change_current_allocator(allocator: Any) -> None:
    """Not supported: the allocator knows streams, graphs and history, and cannot be swapped."""
    _refuse_allocator("change_current_allocator")


def _refuse_allocator(name: str) -> NoReturn:
    raise _native.NotSupportedError(
        f"{name}(): the allocator of GPU memory knows streams, graphs and history, and cannot be swapped. "
        "facula.cuda.MemPool sets memory apart, facula.cuda.caching_allocator_enable(False) asks the driver every time, and "
        "facula.from_dlpack() takes memory that another library has allocated")


class GdsFile:
    """Not supported: files are read and written through the CPU's memory."""

    def __init__(self, filename: str, flags: int) -> None:
        _refuse_gds("GdsFile")


def gds_register_buffer(s: Any) -> None:
    """Not supported: files are read and written through the CPU's memory."""
    _refuse_gds("gds_register_buffer")


def gds_deregister_buffer(s: Any) -> None:
    """Not supported: files are read and written through the CPU's memory."""
    _refuse_gds("gds_deregister_buffer")


def _refuse_gds(name: str) -> NoReturn:
    raise _native.NotSupportedError(
        f"{name}(): GPUDirect Storage is not used: files are read and written through the CPU's memory. facula.load() and "
        "facula.save() do so; for reads beside the GPU's work, read into a tensor of pin_memory=True and copy it with "
        "non_blocking=True")
