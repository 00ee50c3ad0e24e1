"""What the losses call the ways to fold their entries."""
from __future__ import annotations

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def reduction(name: str, function: str) -> int:
    """The number by which ops know a reduction."""
    try:
        return _REDUCTIONS[name]
    except (KeyError, TypeError):
        raise ValueError(f"{function}(): '{name}' is not a reduction; use 'none', 'mean' or 'sum'") from None
