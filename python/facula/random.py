"""The state of the default generator."""
import contextlib

from ._native import get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True):
    """Draws inside the block leave the streams outside of it as they were: the cpu's and those of `devices`, which are
    all GPUs when it is None."""
    if not enabled:
        yield
        return
    from . import cuda
    indices = range(cuda.device_count()) if devices is None else list(devices)
    state, states = get_rng_state(), [(i, cuda.get_rng_state(i)) for i in indices]
    try:
        yield
    finally:
        set_rng_state(state)
        for index, each in states:
            cuda.set_rng_state(each, index)
