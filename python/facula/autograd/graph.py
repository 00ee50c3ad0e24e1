"""The recorded graph: its nodes, and hooks around tensors that it saves."""

from __future__ import annotations

from _thread import _local as _Local
from _thread import allocate_lock
from collections import namedtuple

from .. import _native
from .._native import Tensor
from .._native import _Node as Node
from .._native import _RemovableHandle as RemovableHandle

__all__ = [
    "Node",
    "GradientEdge",
    "get_gradient_edge",
    "increment_version",
    "saved_tensors_hooks",
    "save_on_cpu",
    "disable_saved_tensors_hooks",
    "register_multi_grad_hook",
]

_local = _Local()


class GradientEdge(namedtuple("GradientEdge", "node output_nr")):
    """Where the gradient of a tensor goes: a node, and which of its outputs the tensor is."""

    __slots__ = ()


def get_gradient_edge(tensor):
    """The edge for a tensor that requires gradients: the operation that made it, or the accumulator of a leaf."""
    return GradientEdge(*_native._gradient_edge(tensor))


def increment_version(tensor):
    """Tells the tape that the elements of a tensor, or of each of several, were changed by other means."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _native._increment_version(each)


class saved_tensors_hooks:
    """In this block tensors that are saved for backward go through `pack_hook`; backward gets what `unpack_hook` makes
    of it.
    """

    def __init__(self, pack_hook, unpack_hook):
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks: hooks must be callable, not {type(hook).__name__}")
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._hooks = _native._SavedHooks(pack_hook, unpack_hook)

    def __enter__(self):
        message = getattr(_local, "disabled", None)
        if message is not None:
            raise RuntimeError(message)
        self._hooks.enter()
        _local.active = getattr(_local, "active", 0) + 1

    def __exit__(self, *error):
        _local.active -= 1
        self._hooks.leave()


class save_on_cpu(saved_tensors_hooks):
    """In this block saved tensors are kept on the host, and go back to their device when backward needs them."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            return tensor.device, tensor.to("cpu")

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks:
    """In this block `saved_tensors_hooks` is an error with this message."""

    def __init__(self, error_message):
        self.error_message = error_message

    def __enter__(self):
        if getattr(_local, "active", 0):
            raise RuntimeError(self.error_message)
        self._before = getattr(_local, "disabled", None)
        _local.disabled = self.error_message

    def __exit__(self, *error):
        _local.disabled = self._before

    def __call__(self, func):
        from .grad_mode import _decorate

        message = self.error_message
        return _decorate(lambda: disable_saved_tensors_hooks(message), func)


class _Handles:
    """Removes several hooks at once."""

    def __init__(self, handles):
        self.handles = tuple(handles)

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls `fn` in every backward pass once the gradients of all `tensors` are known, with the list of them; with mode
    "any" when the first is known, with that one.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: expects mode to be one of ('all', 'any') but got {mode}")
    tensors = list(tensors)
    lock = allocate_lock()
    passes = {}  # what has come, by backward pass; passes that ended early are dropped by later ones

    def came(index):
        def hook(grad):
            number = _native._current_pass()
            with lock:
                for old in [n for n in passes if n < number - 64]:
                    del passes[old]
                grads = passes.setdefault(number, {})
                first = not grads
                grads[index] = grad
                complete = len(grads) == len(tensors)
                if complete:
                    del passes[number]
            if mode == "any" and first:
                fn(grad)
            elif mode == "all" and complete:
                fn([grads[i] for i in range(len(tensors))])

        return hook

    return _Handles(t.register_hook(came(i)) for i, t in enumerate(tensors))
