"""The base class of networks in Python, with PyTorch's semantics: attributes that are parameters, buffers or modules are
registered, calls run hooks, states are ordered dicts of tensors."""
from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from ... import _native
from ..._native import Tensor
from ...autograd import no_grad
from ..parameter import Parameter
from ._backward_hooks import BackwardHooks
from ._errors import explain
from ._state import load_state

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Module"]


class _IncompatibleKeys(NamedTuple("IncompatibleKeys", [("missing_keys", "list[str]"), ("unexpected_keys", "list[str]")])):
    """The names in which a state dict and a module differ."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class RemovableHandle:
    """Removes a hook, when `remove` is called or a `with` block ends."""

    _next = 0

    def __init__(self, *tables: Any) -> None:
        self.id = RemovableHandle._next
        RemovableHandle._next += 1
        self._tables = [weakref.ref(table) for table in tables]

    def remove(self) -> None:
        for table in self._tables:
            hooks = table()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


class _Hooks(OrderedDict[int, Any]):
    """Hooks by the numbers of their handles. A dict of its own, so that handles can refer to it weakly."""


class Module:
    """Base class of networks. Attributes that are parameters, buffers or modules are registered; `forward` computes."""

    training: bool
    _parameters: dict[str, Optional[Parameter]]
    _buffers: dict[str, Optional[Tensor]]
    _modules: dict[str, Optional[Module]]
    dump_patches = False
    _version = 1
    # What options say about the sizes of arguments: (argument, dim, option).
    _expects: tuple[Any, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            given = ", ".join([repr(a) for a in args] + list(kwargs))
            raise TypeError(f"{type(self).__name__}.__init__() takes no arguments here, got {given}")
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_modules"] = {}
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks",
                     "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
                     "_load_state_dict_post_hooks"):
            own[name] = _Hooks()
        own["_forward_pre_hooks_with_kwargs"] = _Hooks()
        own["_forward_hooks_with_kwargs"] = _Hooks()
        own["_forward_hooks_always_called"] = _Hooks()

    # Calls.

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if not (self._forward_pre_hooks or self._forward_hooks or self._backward_hooks or self._backward_pre_hooks):
                return self.forward(*args, **kwargs)
            return self._call_with_hooks(args, kwargs)
        except (_native.Error, IndexError) as error:
            explain(self, error, args, kwargs)
            raise

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        always = dict(self._forward_hooks_always_called)
        try:
            for key, hook in list(self._forward_pre_hooks.items()):
                if key in self._forward_pre_hooks_with_kwargs:
                    changed = hook(self, args, kwargs)
                    if changed is not None:
                        if not (isinstance(changed, tuple) and len(changed) == 2):
                            raise RuntimeError("a forward pre-hook with kwargs must return None or a tuple of (new_args, "
                                               f"new_kwargs), but got {changed!r}")
                        args, kwargs = changed
                else:
                    changed = hook(self, args)
                    if changed is not None:
                        args = changed if isinstance(changed, tuple) else (changed,)
            backward = None
            if self._backward_hooks or self._backward_pre_hooks:
                backward = BackwardHooks(self, list(self._backward_hooks.values()), list(self._backward_pre_hooks.values()))
                args = backward.watch_inputs(args)
            result = self.forward(*args, **kwargs)
            for key, hook in list(self._forward_hooks.items()):
                always.pop(key, None)
                if key in self._forward_hooks_with_kwargs:
                    changed = hook(self, args, kwargs, result)
                else:
                    changed = hook(self, args, result)
                if changed is not None:
                    result = changed
            return backward.watch_outputs(result) if backward is not None else result
        except BaseException:
            for key in always:  # those that run whatever happens, and have not yet
                hook = self._forward_hooks.get(key)
                if hook is not None:
                    hook(self, args, kwargs, None) if key in self._forward_hooks_with_kwargs else hook(self, args, None)
            raise

    # Registering.

    def register_buffer(self, name: str, tensor: Optional[Tensor], persistent: bool = True) -> None:
        """Adds a tensor that moves with the module and is no parameter. Not persistent ones are not in state dicts."""
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (facula Tensor or None required)")
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def register_parameter(self, name: str, param: Optional[Tensor]) -> None:
        """Adds a parameter; None keeps the name free for none."""
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                                "(facula.nn.Parameter or None required)")
            if param.grad_fn is not None:
                raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                                 "explicitly; to express it as a function of another tensor, compute it in forward()")
        self._parameters[name] = param

    def add_module(self, name: str, module: Optional["Module"]) -> None:
        """Adds a module under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, kind: str, name: str, table: dict[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Tensor):
            marks = value.__dict__
            if marks.get("_is_param") is True:
                self._forget(name)
                return self.register_parameter(name, value)
            if marks.get("_is_buffer") is True:
                self._forget(name)
                return self.register_buffer(name, value, marks.get("persistent", True))
            for table, kind in (("_parameters", "parameter"), ("_modules", "child module")):
                if name in own.get(table, ()):
                    raise TypeError(f"cannot assign '{type(value).__name__}' as {kind} '{name}' "
                                    f"(facula.nn.{'Parameter' if table == '_parameters' else 'Module'} or None expected)")
            if name in own.get("_buffers", ()):
                own["_buffers"][name] = value
                return None
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name)
            own["_modules"][name] = value
            return None
        else:
            for table in ("_parameters", "_buffers", "_modules"):
                if name in own.get(table, ()):
                    if value is not None:
                        kind = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "child module"}[table]
                        raise TypeError(f"cannot assign '{type(value).__name__}' as {kind} '{name}'")
                    own[table][name] = None
                    return None
        object.__setattr__(self, name, value)
        return None

    def _forget(self, name: str) -> None:
        """Lets go of what an attribute was, before it becomes something of another kind."""
        own = self.__dict__
        own.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            own.get(table, {}).pop(name, None)
        own.get("_non_persistent_buffers_set", set()).discard(name)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            found = own.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(object.__dir__(self)) | set(self._parameters) | set(self._buffers) | set(self._modules)
        return sorted(n for n in names if not n[:1].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    # What is registered, by name.

    def get_submodule(self, target: str) -> Module:
        """The module at a path, `encoder.layers.3`."""
        module: Module = self
        for part in target.split(".") if target else []:
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: "Module") -> None:
        """Puts a module in the place of the one at a path."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        where, _, name = target.rpartition(".")
        parent = self.get_submodule(where)
        if name not in parent._modules:
            raise AttributeError(f"{type(parent).__name__} has no module `{name}`")
        parent._modules[name] = module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path."""
        where, _, name = target.rpartition(".")
        found = self.get_submodule(where)._parameters.get(name)
        if found is None:
            raise AttributeError(f"`{target}` is not a parameter of {type(self).__name__}")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path."""
        where, _, name = target.rpartition(".")
        found = self.get_submodule(where)._buffers.get(name)
        if found is None:
            raise AttributeError(f"`{target}` is not a buffer of {type(self).__name__}")
        return found

    def _named_members(self, table: str, prefix: str, recurse: bool,
                       remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, tensor in getattr(module, table).items():
                if tensor is None or (remove_duplicate and id(tensor) in seen):
                    continue
                seen.add(id(tensor))
                yield f"{path}.{name}" if path else name, tensor

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their names; one with several names under the first."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters."""
        for _, tensor in self.named_parameters(recurse=recurse):
            yield tensor

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their names."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        for _, tensor in self.named_buffers(recurse=recurse):
            yield tensor

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes of this one, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator["Module"]:
        """The modules that are attributes of this one."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo: Optional[set[Module]] = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths."""
        memo = set() if memo is None else memo
        if remove_duplicate:
            if self in memo:
                return
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator["Module"]:
        """This module and all below it."""
        for _, module in self.named_modules():
            yield module

    # What is done to all of it.

    def apply(self, fn: Callable[["Module"], Any]) -> Self:
        """Calls a function with every module below, then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Parameters, their gradients and buffers become what `fn` makes of them. Parameters stay the same objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            grad = param.grad
            with no_grad():
                made = fn(param.detach())
                made_grad = None if grad is None else fn(grad.detach())
            if grad is not None:
                param.grad = None
            param.data = made
            if made_grad is not None:
                param.grad = made_grad
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves and casts: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`. Integer tensors keep their dtype."""
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(tensor: Tensor) -> Tensor:
            wanted = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            how: dict[str, Any] = {"non_blocking": non_blocking}
            if memory_format is not None and tensor.dim() in (4, 5):
                how["memory_format"] = memory_format
            if device is not None:
                how["device"] = device
            if wanted is not None:
                how["dtype"] = wanted
            return tensor.to(**how)

        return self._apply(convert)

    def _cast(self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Floating tensors become float32."""
        return self._cast(_native.float32)

    def double(self) -> Self:
        """Floating tensors become float64."""
        return self._cast(_native.float64)

    def half(self) -> Self:
        """Floating tensors become float16."""
        return self._cast(_native.float16)

    def bfloat16(self) -> Self:
        """Floating tensors become bfloat16."""
        return self._cast(_native.bfloat16)

    def type(self, dst_type: Any) -> Self:
        """All tensors get a dtype."""
        return self._apply(lambda t: t.to(dst_type))

    def cuda(self, device: Union[int, Any, None] = None) -> Self:
        """Moves everything to a GPU."""
        return self._apply(lambda t: t.cuda(device) if device is not None else t.cuda())

    def cpu(self) -> Self:
        """Moves everything to the CPU."""
        return self._apply(lambda t: t.cpu())

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Moves sizes and dtypes to a device, without the values."""
        return self._apply(lambda t: _native.empty_like(t, device=device), recurse=recurse)

    def share_memory(self) -> Self:
        raise NotImplementedError("share_memory() is not here yet")

    def train(self, mode: bool = True) -> Self:
        """Sets the mode for modules that act differently in training."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The mode for using a network."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Says for all parameters whether they get gradients."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Lets gradients go, or fills them with zeros."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                param.grad = param.grad.detach()
                param.grad.zero_()

    # Hooks.

    def _add_hook(self, table: _Hooks, hook: Callable[..., Any], prepend: bool = False,
                  **marks: _Hooks) -> RemovableHandle:
        handle = RemovableHandle(table, *marks.values())
        table[handle.id] = hook
        for marked in marks.values():
            marked[handle.id] = True
        if prepend:
            table.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:
        """`hook(module, args)` runs before forward; what it returns takes the place of the arguments."""
        marks = {"kwargs": self._forward_pre_hooks_with_kwargs} if with_kwargs else {}
        return self._add_hook(self._forward_pre_hooks, hook, prepend, **marks)

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """`hook(module, args, output)` runs after forward; what it returns takes the place of the output."""
        marks = {"kwargs": self._forward_hooks_with_kwargs} if with_kwargs else {}
        if always_call:
            marks["always"] = self._forward_hooks_always_called
        return self._add_hook(self._forward_hooks, hook, prepend, **marks)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` runs when the gradients of the inputs are known; what it returns takes their
        place."""
        return self._add_hook(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` runs before the gradients of the module are computed; what it returns takes the place of
        the gradients of the outputs."""
        return self._add_hook(self._backward_pre_hooks, hook, prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` runs before state_dict collects."""
        return self._add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` runs after state_dict has collected."""
        return self._add_hook(self._state_dict_hooks, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` runs before a
        state is loaded; it may change the state dict."""
        return self._add_hook(self._load_state_dict_pre_hooks, functools.partial(hook, self))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` runs after a state was loaded."""
        return self._add_hook(self._load_state_dict_post_hooks, hook)

    # State.

    def get_extra_state(self) -> Any:
        """What else belongs into state dicts; override it together with set_extra_state."""
        raise RuntimeError("get_extra_state() is not there: override it and set_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Takes what get_extra_state gave."""
        raise RuntimeError("set_extra_state() is not there: override it and get_extra_state()")

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not Module.get_extra_state

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._has_extra_state():
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Optional[dict[str, Any]] = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:
        """All parameters and persistent buffers by name, without history. They share memory with the module."""
        for name, value in zip(("destination", "prefix", "keep_vars"), args):
            destination = value if name == "destination" else destination
            prefix = value if name == "prefix" else prefix
            keep_vars = value if name == "keep_vars" else keep_vars
        if destination is None:
            destination = OrderedDict()
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            changed = hook(self, destination, prefix, {"version": self._version})
            if changed is not None:
                destination = changed
        return destination

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> _IncompatibleKeys:
        """Copies values into the module, or with `assign` takes the tensors themselves. Looks at everything before it writes
        anything: missing, unexpected and mis-shaped names are listed all at once, and nothing is loaded."""
        return load_state(self, state_dict, strict, assign, _IncompatibleKeys)

    # Text.

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands in the parentheses of this module when it is printed."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = []
        for name, module in self._modules.items():
            text = repr(module).split("\n")
            children.append(f"({name}): " + "\n  ".join(text))
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def _parse_to(*args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False,
              memory_format: Any = None) -> tuple[Any, ...]:
    """The arguments of `to` by what they mean."""
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, _native.dtype):
            dtype = value
        elif isinstance(value, bool):
            non_blocking = value
        elif value is not None:
            device = value
    return device, dtype, non_blocking, memory_format
