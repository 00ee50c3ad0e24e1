"""Mixed precision under its older names: facula.amp with the device given."""
from __future__ import annotations

from typing import Optional

from .. import _native
from .. import amp as _amp
from ..amp import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(_amp.autocast):
    """`facula.amp.autocast("cuda", ...)`."""

    def __init__(self, enabled: bool = True, dtype: Optional[_native.dtype] = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", _native.float16 if dtype is None else dtype, enabled, cache_enabled)


class GradScaler(_amp.GradScaler):
    """`facula.amp.GradScaler("cuda", ...)`."""

    def __init__(self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
