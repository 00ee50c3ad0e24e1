from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Optional

__all__ = ["checkpoint", "checkpoint_sequential"]

def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: Optional[bool] = None,
    context_fn: Optional[Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]] = None,
    determinism_check: str = "default", debug: bool = False, preserve_rng_state: bool = True, **kwargs: Any,
) -> Any: ...
def checkpoint_sequential(
    functions: Iterable[Callable[..., Any]], segments: int, input: Any, use_reentrant: Optional[bool] = None,
    preserve_rng_state: bool = True, **kwargs: Any,
) -> Any: ...
