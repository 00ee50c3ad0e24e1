"""Gradient scaling: float16 has little room for small numbers, so the loss is made large before backward."""
from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Optional, Union, overload

from .. import _native
from .._native import Tensor

if TYPE_CHECKING:
    from ..optim import Optimizer

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimizer is between two updates."""
    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Multiplies losses by a large number, divides gradients by it before the optimizer's step, leaves a step out whose gradients
    are infinite or NaN, and makes the number smaller then, and larger after `growth_interval` good steps.

        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True) -> None:
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda":
            from .. import cuda
            if not cuda.is_available():
                warnings.warn("GradScaler is enabled for cuda, but CUDA is not available. Disabling.", stacklevel=2)
                self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise ValueError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise ValueError("The backoff factor must be < 1.0.")
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
        self._scale: Optional[Tensor] = None
        self._growth_tracker: Optional[Tensor] = None
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_fresh)

    def _start(self, device: _native.device) -> Tensor:
        if self._scale is None:
            self._scale = _native.full((), self._init_scale, dtype=_native.float32, device=device)
            self._growth_tracker = _native.full((), self._init_growth_tracker, dtype=_native.int32, device=device)
        return self._scale

    def _started(self, name: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise RuntimeError(f"Attempted {name} but _scale is None. This may indicate your script did not use "
                               "scaler.scale(loss or outputs) earlier in the iteration.")
        return self._scale, self._growth_tracker

    @overload
    def scale(self, outputs: Tensor) -> Tensor: ...
    @overload
    def scale(self, outputs: list[Tensor]) -> list[Tensor]: ...
    @overload
    def scale(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]: ...
    @overload
    def scale(self, outputs: Iterable[Tensor]) -> Iterable[Tensor]: ...
    def scale(self, outputs: Any) -> Any:
        """A tensor, or a list of tensors, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._start(outputs.device).to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(each) for each in outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the gradients of the optimizer's parameters by the scale, for code that looks at them before the step, as
        clipping does. `step` does it otherwise."""
        if not self._enabled:
            return
        scale, _ = self._started("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        by_device: dict[str, list[Tensor]] = {}
        for group in optimizer.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if grad.dtype is _native.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                by_device.setdefault(str(grad.device), []).append(grad)
        factor = scale.double().reciprocal().float()
        found = {}
        for device, grads in by_device.items():
            found[device] = _native.zeros((), dtype=_native.float32, device=device)
            _native._optim.unscale_(grads, found[device], factor)
        state["found_inf_per_device"], state["stage"] = found, OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step(*args, **kwargs), unless a gradient is infinite or NaN. Waits for the device to know."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._started("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        state["stage"] = OptState.STEPPED
        if any(found.item() for found in state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Union[float, Tensor, None] = None) -> None:
        """Sets the scale for the next iteration, by what was found in all steps, or to `new_scale`."""
        if not self._enabled:
            return
        scale, growth_tracker = self._started("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor):
                scale.copy_(new_scale.detach().reshape(()))
            else:
                scale.fill_(new_scale)
        else:
            found = [each.to(scale.device) for state in self._per_optimizer_states.values()
                     for each in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            total = found[0]
            for each in found[1:]:
                total = total + each
            _native._amp.update_scale_(scale, growth_tracker, total, self._growth_factor, self._backoff_factor,
                                       self._growth_interval)
        self._per_optimizer_states = defaultdict(_fresh)

    def get_scale(self) -> float:
        """The scale as a number; waits for the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The numbers of the scaler; empty when it is off."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of "
                               "GradScaler.")
        self._init_scale = state_dict["scale"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._init_growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
