"""Mixed precision: autocast, and scaling of gradients for float16.

    with facula.autocast("cuda", dtype=facula.bfloat16):
        loss = loss_of(net, batch)
    loss.backward()
"""
from .autocast_mode import (autocast, clear_autocast_cache, custom_bwd, custom_fwd, get_autocast_dtype,
                            is_autocast_available, is_autocast_cache_enabled, is_autocast_enabled,
                            set_autocast_cache_enabled, set_autocast_dtype, set_autocast_enabled)
from .grad_scaler import GradScaler, OptState

__all__ = ["GradScaler", "OptState", "autocast", "clear_autocast_cache", "custom_bwd", "custom_fwd", "get_autocast_dtype",
           "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_enabled", "set_autocast_cache_enabled",
           "set_autocast_dtype", "set_autocast_enabled"]
