"""Devices: how many, which one is current, what they are."""
from typing import Any, Union

from .. import _native

_cuda = _native._cuda
Device = Union["_native.device", str, int, None]


def index_of(device: Device, optional: bool = True) -> int:
    """The index of a device that may be given as a number, a name, a facula.device or None (the current one)."""
    if device is None:
        if not optional:
            raise _native.ArgumentError("a device is expected, e.g. 'cuda:0' or 0")
        return _cuda._current_device()
    if isinstance(device, bool):
        raise TypeError("a device is expected, e.g. 'cuda:0' or 0, not a bool")
    if isinstance(device, int):
        return device if device >= 0 else _cuda._current_device()
    where = _native.device(device) if isinstance(device, str) else device
    if not isinstance(where, _native.device):
        raise TypeError(f"a device is expected, e.g. 'cuda:0' or 0, not {type(device).__name__}")
    if where.type != "cuda":
        raise _native.ArgumentError(f"Expected a cuda device, but got: {where}")
    return _cuda._current_device() if where.index is None else where.index


def is_available() -> bool:
    """Whether there is a GPU to use. Never raises; `why_not_available()` says what is missing."""
    return _cuda._is_available()


def why_not_available() -> str:
    """What is missing, in words; empty when a GPU is there."""
    return _cuda._why_not_available()


def device_count() -> int:
    """How many GPUs there are; 0 without a driver."""
    return _cuda._device_count()


def init() -> None:
    """Reaches the driver now instead of with the first op."""
    _cuda._init()


def is_initialized() -> bool:
    """Whether any call has reached a GPU."""
    return _cuda._is_initialized()


def current_device() -> int:
    """The index of this thread's current device."""
    _cuda._init()
    return _cuda._current_device()


def set_device(device: Device) -> None:
    """Makes a device current for this thread; a negative index changes nothing."""
    if isinstance(device, int) and not isinstance(device, bool) and device < 0:
        return
    _cuda._set_device(index_of(device))


def synchronize(device: Device = None) -> None:
    """Waits for all that is queued on a device."""
    _cuda._synchronize(index_of(device))


class device:
    """Makes a device current inside the block; None or a negative index changes nothing."""

    def __init__(self, device: Device) -> None:
        none = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if none else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> "device":
        if self.idx >= 0:
            self.prev_idx = _cuda._exchange_device(self.idx)
        return self

    def __exit__(self, *_: Any) -> None:
        if self.idx >= 0:
            _cuda._exchange_device(self.prev_idx)


class device_of(device):
    """Makes the device of a tensor current inside the block; a tensor on the cpu changes nothing."""

    def __init__(self, obj: "_native.Tensor") -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class _DeviceProperties:
    """What a device is."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    pci_domain_id: int
    pci_bus_id: int
    pci_device_id: int
    is_integrated: int
    is_multi_gpu_board: int
    gcnArchName: str
    uuid: bytes

    def __init__(self, facts: "dict[str, Any]") -> None:
        self.__dict__.update(facts)

    @property
    def multiprocessor_count(self) -> int:
        return self.multi_processor_count

    def __repr__(self) -> str:
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory // (1 << 20)}MB, "
                f"multi_processor_count={self.multi_processor_count}, "
                f"L2_cache_size={self.L2_cache_size // (1 << 20)}MB)")


def get_device_properties(device: Device = None) -> "_DeviceProperties":
    """Name, compute capability, memory and sizes of a device."""
    return _DeviceProperties(_cuda._device_properties(index_of(device)))


def get_device_name(device: Device = None) -> str:
    """The name of a device, as its maker gives it."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> "tuple[int, int]":
    """(major, minor) of a device."""
    facts = get_device_properties(device)
    return facts.major, facts.minor


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether kernels of one device can read the memory of another."""
    return _cuda._can_device_access_peer(index_of(device), index_of(peer_device))


def get_arch_list() -> "list[str]":
    """The chips of the devices that are there: kernels are compiled for them when they are needed."""
    return sorted({_cuda._device_properties(i)["gcnArchName"] for i in range(device_count())})


def get_gencode_flags() -> str:
    """Empty: no kernel is compiled ahead of time."""
    return ""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works on the current device: it does on every one."""
    if not is_available():
        return False
    return including_emulation or _cuda._is_hip() or get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """Whether the current device has TensorFloat-32."""
    return is_available() and not _cuda._is_hip() and get_device_capability()[0] >= 8


def set_sync_debug_mode(debug_mode: Any) -> None:
    """What happens when an op waits for the GPU by itself: 0 or 'default', 1 or 'warn', 2 or 'error'."""
    names = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise _native.ArgumentError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = names[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise _native.ArgumentError(f"invalid value of debug_mode: {debug_mode}; expected 0, 1 or 2")
    _cuda._set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """0, 1 or 2: see set_sync_debug_mode."""
    return _cuda._get_sync_debug_mode()


def device_memory_used(device: Device = None) -> int:
    """Bytes of the device that anybody uses."""
    return _cuda._device_memory_used(index_of(device))


def utilization(device: Device = None) -> int:
    """Percent of the last while in which a kernel ran."""
    return _cuda._utilization(index_of(device))


def memory_usage(device: Device = None) -> int:
    """Percent of the last while in which memory was read or written."""
    return _cuda._memory_usage(index_of(device))


def temperature(device: Device = None) -> int:
    """Degrees Celsius."""
    return _cuda._temperature(index_of(device))


def power_draw(device: Device = None) -> int:
    """Milliwatts."""
    return _cuda._power_draw(index_of(device))


def clock_rate(device: Device = None) -> int:
    """MHz of the multiprocessors."""
    return _cuda._clock_rate(index_of(device))
