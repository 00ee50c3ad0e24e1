"""Random generators of GPUs. The same seed gives the same numbers as on the cpu."""
from .. import _native
from ._devices import Device, device_count, index_of

__all__ = ["Generator", "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
           "seed_all", "set_rng_state", "set_rng_state_all"]

_cuda = _native._cuda


def Generator(device: Device = "cuda") -> "_native.Generator":
    """A generator of numbers on a GPU, apart from the device's own: facula.Generator(device='cuda')."""
    return _native.Generator(device=f"cuda:{index_of(device)}")


def get_rng_state(device: Device = "cuda") -> "_native.Tensor":
    """The state of a device's generator, as a tensor of bytes."""
    return _cuda._default_generator(index_of(device)).get_state()


def set_rng_state(new_state: "_native.Tensor", device: Device = "cuda") -> None:
    """Sets what get_rng_state gave."""
    _cuda._default_generator(index_of(device)).set_state(new_state)


def get_rng_state_all() -> "list[_native.Tensor]":
    """The states of all devices."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: "list[_native.Tensor]") -> None:
    """Sets what get_rng_state_all gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device. Without a GPU nothing happens."""
    _cuda._manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds all devices. Without a GPU nothing happens."""
    _cuda._manual_seed_all(seed)


def seed() -> int:
    """Seeds the current device with a number from the system."""
    return _cuda._seed()


def seed_all() -> None:
    """Seeds all devices with one number from the system."""
    _cuda._seed_all()


def initial_seed() -> int:
    """The seed of the current device."""
    return _cuda._initial_seed()
