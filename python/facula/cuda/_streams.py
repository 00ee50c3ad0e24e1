"""Streams and events."""
from typing import Any

from .. import _native
from ._devices import Device, index_of

_cuda = _native._cuda


class Stream:
    """A queue of work on a device. What is queued on one runs in order; streams run side by side."""

    def __init__(
        self, device: Device = None, priority: int = 0, *, stream_id: "int | None" = None,
        device_index: "int | None" = None, device_type: Any = None
    ) -> None:
        if stream_id is not None:
            self._native = _cuda._Stream._from_id(stream_id, -1 if device_index is None else device_index)
        else:
            self._native = _cuda._Stream._from_pool(priority, index_of(device))

    @classmethod
    def _of(cls, native: Any) -> "Stream":
        made = Stream.__new__(Stream)
        made._native = native
        return made

    device_index = property(lambda self: self._native.device_index)
    device = property(lambda self: _native.device("cuda", self._native.device_index))
    cuda_stream = property(lambda self: self._native.cuda_stream, doc="The driver's own handle, as a number.")
    stream_id = property(lambda self: self._native.stream_id)
    priority = property(lambda self: self._native.priority)

    @staticmethod
    def priority_range() -> "tuple[int, int]":
        """(least, greatest): smaller numbers go first."""
        return _cuda._priority_range()

    def query(self) -> bool:
        """Whether all that was queued is done."""
        return self._native.query()

    def synchronize(self) -> None:
        """Waits until all that was queued is done."""
        self._native.synchronize()

    def wait_stream(self, stream: Any) -> None:
        """What is queued here from now on waits for what is queued there by now."""
        self._native._wait_stream(stream._native)

    def wait_event(self, event: Any) -> None:
        """What is queued here from now on waits for the event."""
        event.wait(self)

    def record_event(self, event: Any = None) -> "Event":
        """Marks what is queued by now; makes an event when none is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def is_capturing(self) -> bool:
        return self._native.is_capturing()

    def __enter__(self) -> "Stream":
        self._context = StreamContext(self)
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Stream) and self._native == other._native

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<facula.cuda.Stream device=cuda:{self.device_index} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that somebody else has made, by the driver's handle; it must outlive this object."""

    def __init__(self, stream_ptr: int, device: Device = None) -> None:
        self._native = _cuda._Stream._external(stream_ptr, index_of(device))


class Event:
    """A mark in a stream, which others wait for and which tells the time to another."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
        external: bool = False
    ) -> None:
        flags = (0 if enable_timing else 2) | (1 if blocking else 0) | (4 if interprocess else 0)
        self._native = _cuda._Event(flags)

    def record(self, stream: Any = None) -> None:
        """Marks what is queued on a stream by now."""
        self._native._record((current_stream() if stream is None else stream)._native)

    def wait(self, stream: Any = None) -> None:
        """What is queued on a stream from now on waits for the mark."""
        self._native._block((current_stream() if stream is None else stream)._native)

    def query(self) -> bool:
        """Whether the mark was reached, or none was set."""
        return self._native.query()

    def synchronize(self) -> None:
        """Waits until the mark is reached."""
        self._native.synchronize()

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds from this mark to the other one."""
        return self._native._elapsed_time(end_event._native)

    device = property(lambda self: None if self._native._device_index < 0 else
                      _native.device("cuda", self._native._device_index))
    cuda_event = property(lambda self: self._native.cuda_event, doc="The driver's own handle, as a number.")

    def __repr__(self) -> str:
        return f"<facula.cuda.Event {self.cuda_event:#x}>" if self.cuda_event else "<facula.cuda.Event uninitialized>"


def current_stream(device: Device = None) -> "Stream":
    """The stream that this thread queues work of a device on."""
    return Stream._of(_cuda._Stream._current(index_of(device)))


def default_stream(device: Device = None) -> "Stream":
    """The stream that is current where nobody has set another."""
    return Stream._of(_cuda._Stream._default(index_of(device)))


def set_stream(stream: Any) -> None:
    """Makes a stream and its device current; None changes nothing."""
    if stream is None:
        return
    _cuda._set_device(stream.device_index)
    stream._native._make_current()


def get_stream_from_external(data_ptr: int, device: Device = None) -> "ExternalStream":
    """A stream that somebody else has made, by the driver's handle."""
    return ExternalStream(data_ptr, device)


class StreamContext:
    """Makes a stream and its device current inside the block; None changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._device = _cuda._current_device()
        self._before = _cuda._Stream._current(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, *_: Any) -> None:
        if self.stream is not None:
            self._before._make_current()
            _cuda._set_device(self._device)


def stream(stream: Any) -> "StreamContext":
    """Makes a stream and its device current inside the block; None changes nothing."""
    return StreamContext(stream)

