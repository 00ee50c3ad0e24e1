"""Modes of a thread: whether operations are recorded, and inference. Each is a context manager and a decorator."""

from __future__ import annotations

import functools

from .. import _native

# Flags of code objects; the module `inspect` knows them too, but takes long to import.
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


def _steps(make, source):
    """Runs a generator or coroutine with the mode on while it computes, and off while somebody else does."""
    try:
        with make():
            produced = source.send(None)
        while True:
            try:
                received = yield produced
            except GeneratorExit:
                with make():
                    source.close()
                raise
            except BaseException as error:
                with make():
                    produced = source.throw(error)
            else:
                with make():
                    produced = source.send(received)
    except StopIteration as stop:
        return stop.value


class _Steps:
    """The same as an awaitable."""

    def __init__(self, make, coroutine):
        self._steps = _steps(make, coroutine)

    def __await__(self):
        return self._steps


def _decorate(make, func):
    """`func` with the context that `make` gives around every call."""
    if not callable(func):
        raise TypeError(f"a mode decorates functions, not {type(func).__name__}")
    flags = getattr(getattr(func, "__code__", None), "co_flags", 0)
    if flags & _GENERATOR:

        @functools.wraps(func)
        def in_steps(*args, **kwargs):
            return (yield from _steps(make, func(*args, **kwargs)))

        return in_steps
    if flags & _COROUTINE:

        @functools.wraps(func)
        async def awaited(*args, **kwargs):
            return await _Steps(make, func(*args, **kwargs))

        return awaited
    if flags & _ASYNC_GENERATOR:

        @functools.wraps(func)
        async def in_async_steps(*args, **kwargs):
            source = func(*args, **kwargs)
            try:
                while True:
                    try:
                        produced = await _Steps(make, source.__anext__())
                    except StopAsyncIteration:
                        return
                    yield produced
            finally:
                await source.aclose()

        return in_async_steps

    @functools.wraps(func)
    def in_mode(*args, **kwargs):
        with make():
            return func(*args, **kwargs)

    return in_mode


class no_grad(_native._GradGuard):
    """Nothing is recorded in this block, or in the decorated function: results need no gradient.

    >>> with facula.no_grad():
    ...     y = x * 2
    """

    _records = False

    def __call__(self, func):
        return _decorate(type(self), func)


class enable_grad(_native._GradGuard):
    """Operations are recorded in this block, or in the decorated function, even inside `no_grad`."""

    _records = True

    def __call__(self, func):
        return _decorate(type(self), func)


class set_grad_enabled:
    """Records or does not, from now on; as a context manager until the end of the block."""

    def __init__(self, mode):
        self.mode = bool(mode)
        self.prev = _native._swap_grad_enabled(self.mode)

    def __enter__(self):
        _native._swap_grad_enabled(self.mode)

    def __exit__(self, *error):
        _native._swap_grad_enabled(self.prev)

    def __call__(self, func):
        # Making the decorator has set the mode; that was not meant.
        _native._swap_grad_enabled(self.prev)
        mode = self.mode
        return _decorate(lambda: set_grad_enabled(mode), func)

    def clone(self):
        return type(self)(self.mode)

    def __repr__(self):
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode:
    """As `no_grad`, and tensors made meanwhile never join a tape, which makes them cheaper.

    `inference_mode(False)` is a block of ordinary code inside of one.
    """

    def __new__(cls, mode=True):
        self = super().__new__(cls)
        if callable(mode):  # a decorator without parentheses
            self.mode = True
            return self(mode)
        return self

    def __init__(self, mode=True):
        self.mode = bool(mode)
        self._guards = []

    def __enter__(self):
        self._guards.append(_native._InferenceGuard(self.mode))

    def __exit__(self, *error):
        self._guards.pop()

    def __call__(self, func):
        mode = self.mode
        return _decorate(lambda: inference_mode(mode), func)


class set_multithreading_enabled:
    """Whether a backward pass may use threads of its own. It runs in the thread that asks for it, so this changes
    nothing.
    """

    def __init__(self, mode):
        self.mode = bool(mode)

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


is_grad_enabled = _native.is_grad_enabled
is_inference_mode_enabled = _native.is_inference_mode_enabled
