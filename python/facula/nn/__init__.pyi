from facula.nn import functional as functional

__all__ = ["functional"]
