"""Ranges and marks that profilers show; without the vendor's library they do nothing."""
import contextlib
from typing import Any, Iterator

from .. import _native

__all__ = ["mark", "range", "range_pop", "range_push"]


def range_push(msg: str) -> int:
    """Begins a range inside the current one; gives its depth."""
    return _native._cuda._range_push(msg)


def range_pop() -> int:
    """Ends the innermost range; gives its depth."""
    return _native._cuda._range_pop()


def mark(msg: str) -> None:
    """Marks a moment."""
    _native._cuda._mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> "Iterator[None]":
    """A range for the time of a block; the text is formatted with the other arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
