from contextlib import AbstractContextManager
from typing import Any

from facula._native import (
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]

def fork_rng(devices: Any = None, enabled: bool = True) -> AbstractContextManager[None]: ...
