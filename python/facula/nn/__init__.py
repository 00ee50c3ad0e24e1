"""Neural networks: the functions. Modules are not here yet."""
from . import functional

__all__ = ["functional"]
