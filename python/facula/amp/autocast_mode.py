"""Autocast: regions in which products compute in a narrower type, and ops that need range in float32."""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Literal, Optional, TypeVar, Union, cast, overload

from .. import _native
from .._native import Tensor

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_DEVICES = ("cpu", "cuda")
_F = TypeVar("_F", bound=Callable[..., Any])


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast exists for a kind of device."""
    return device_type in _DEVICES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a kind of device, in this thread."""
    return _native._amp.is_enabled(device_type)


def set_autocast_enabled(device_type: Union[str, bool], enabled: Union[str, bool, None] = None) -> None:
    """Switches autocast on or off for a kind of device; `autocast` does this for a region."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    _native._amp.set_enabled(device_type, enabled)


def get_autocast_dtype(device_type: str) -> _native.dtype:
    """The narrow type of a kind of device."""
    return _native._amp.get_dtype(device_type)


def set_autocast_dtype(device_type: str, dtype: _native.dtype) -> None:
    """Sets the narrow type of a kind of device."""
    _native._amp.set_dtype(device_type, dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether narrow copies of parameters are kept until the outermost region ends."""
    return _native._amp.is_cache_enabled()


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Says whether narrow copies of parameters are kept."""
    _native._amp.set_cache_enabled(enabled)


def clear_autocast_cache() -> None:
    """Lets the narrow copies of parameters go."""
    _native._amp.clear_cache()


class autocast:
    """A region with autocast on, or, nested in one, off: a context manager, or a decorator. Forward passes belong into it,
    `backward` behind it."""

    def __init__(self, device_type: str, dtype: Optional[_native.dtype] = None, enabled: bool = True,
                 cache_enabled: Optional[bool] = None) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'; there are cpu and cuda")
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        self._enabled = bool(enabled)
        if self._enabled and device_type == "cuda":
            from .. import cuda
            if not cuda.is_available():
                warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=2)
                self._enabled = False
        if self._enabled and self.fast_dtype not in (_native.bfloat16, _native.float16):
            warnings.warn(f"In {device_type} autocast, but the target dtype {self.fast_dtype} is not supported. Disabling "
                          "autocast. Supported are float16 and bfloat16.", stacklevel=2)
            self._enabled = False
        self._before: list[tuple[bool, _native.dtype, bool]] = []

    def __enter__(self) -> autocast:
        self._before.append((is_autocast_enabled(self.device), get_autocast_dtype(self.device),
                             is_autocast_cache_enabled()))
        set_autocast_enabled(self.device, self._enabled)
        if self._enabled:
            set_autocast_dtype(self.device, self.fast_dtype)
        set_autocast_cache_enabled(self._cache_enabled)
        _native._amp.increment_nesting()
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        if _native._amp.decrement_nesting() == 0:
            clear_autocast_cache()
        enabled, dtype, cache = self._before.pop()
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, dtype)
        set_autocast_cache_enabled(cache)
        return False

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast(_F, wrapped)


def _cast(value: Any, device_type: str, dtype: _native.dtype) -> Any:
    """Floating tensors of a kind of device in a dtype, also inside of lists and dictionaries."""
    if isinstance(value, Tensor):
        fits = value.is_floating_point() and value.device.type == device_type and value.dtype is not _native.float64
        return value.to(dtype) if fits else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


@overload
def custom_fwd(fwd: _F, *, device_type: str = "cuda", cast_inputs: Optional[_native.dtype] = None) -> _F: ...
@overload
def custom_fwd(fwd: None = None, *, device_type: str = "cuda",
               cast_inputs: Optional[_native.dtype] = None) -> Callable[[_F], _F]: ...
def custom_fwd(fwd: Optional[Callable[..., Any]] = None, *, device_type: str = "cuda",
               cast_inputs: Optional[_native.dtype] = None) -> Any:
    """For `forward` of a custom function: remembers the state of autocast for `backward`. With `cast_inputs`, tensors get that
    dtype and autocast is off inside."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = is_autocast_enabled(device_type)
        if cast_inputs is None or not args[0]._fwd_used_autocast:
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(args[0], *_cast(args[1:], device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return wrapped


@overload
def custom_bwd(bwd: _F, *, device_type: str = "cuda") -> _F: ...
@overload
def custom_bwd(bwd: None = None, *, device_type: str = "cuda") -> Callable[[_F], _F]: ...
def custom_bwd(bwd: Optional[Callable[..., Any]] = None, *, device_type: str = "cuda") -> Any:
    """For `backward` of a custom function whose forward has `custom_fwd`: runs in the same state of autocast."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return wrapped
