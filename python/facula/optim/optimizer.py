"""What all optimizers have in common: groups of parameters, their states, state dicts and hooks."""
from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, ContextManager, Optional, TypeAlias, Union

from .. import _native
from .._native import Tensor

__all__ = ["Optimizer"]

ParamsT: TypeAlias = Iterable[Union[Tensor, dict[str, Any]]]
_Hooks: TypeAlias = OrderedDict[int, Callable[..., Any]]


class _Required:
    """Stands for a default that every group must give itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class _RemovableHandle:
    """Takes a hook away again."""

    def __init__(self, hooks: _Hooks) -> None:
        self._hooks, self.id = hooks, max(hooks, default=-1) + 1

    def remove(self) -> None:
        self._hooks.pop(self.id, None)

    def __enter__(self) -> _RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _add(hooks: _Hooks, hook: Callable[..., Any], prepend: bool = False) -> _RemovableHandle:
    handle = _RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step of an optimizer with the hooks that stand before and after it."""

    @functools.wraps(step)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        for hook in tuple(self._step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {changed}")
                args, kwargs = changed
        result = step(self, *args, **kwargs)
        self._opt_called = True
        for hook in tuple(self._step_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    return wrapped


class Optimizer:
    """The base of optimizers. A class that derives from it gives `defaults` and writes `step`."""

    defaults: dict[str, Any]
    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]
    _step_pre_hooks: _Hooks
    _step_post_hooks: _Hooks
    _state_dict_pre_hooks: _Hooks
    _state_dict_post_hooks: _Hooks
    _load_state_dict_pre_hooks: _Hooks
    _load_state_dict_post_hooks: _Hooks
    _opt_called: bool

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, "
                            "but got a Tensor; write [tensor]")
        self.defaults = defaults
        self._prepare_hooks()
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare_hooks(self) -> None:
        for name in ("_step_pre_hooks", "_step_post_hooks", "_state_dict_pre_hooks", "_state_dict_post_hooks",
                     "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"):
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        self.__dict__.setdefault("_opt_called", False)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare_hooks()
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines + [")"])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group: a dict with `params` and options that differ from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
                            "in sets will change between runs. Please use a list instead.")
        group["params"] = params = list(params)
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
            if not self.defaults.get("differentiable", None) and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, default)
        ids = {id(p) for p in params}
        if len(ids) != len(params):
            raise ValueError("some parameters appear twice in one parameter group")
        if any(id(p) in ids for other in self.param_groups for p in other["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Lets gradients go, or fills them with zeros."""
        for group in self.param_groups:
            _native._optim.zero_grad(group["params"], set_to_none)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Changes the parameters by their gradients. A closure, which computes the loss and its gradients, is called first."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def _loss(self, closure: Optional[Callable[[], Any]]) -> Any:
        if closure is None:
            return None
        with _enable_grad():
            return closure()

    # Hooks.

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> _RemovableHandle:
        """`hook(optimizer, args, kwargs)` runs before each step, and may give other arguments."""
        return _add(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> _RemovableHandle:
        """`hook(optimizer, args, kwargs)` runs after each step."""
        return _add(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> _RemovableHandle:
        """`hook(optimizer)` runs before state_dict."""
        return _add(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> _RemovableHandle:
        """`hook(optimizer, state_dict)` runs after state_dict, and may give another one."""
        return _add(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any],
                                          prepend: bool = False) -> _RemovableHandle:
        """`hook(optimizer, state_dict)` runs before load_state_dict, and may give another one."""
        return _add(self._load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any],
                                           prepend: bool = False) -> _RemovableHandle:
        """`hook(optimizer)` runs after load_state_dict."""
        return _add(self._load_state_dict_post_hooks, hook, prepend)

    # State dicts.

    def state_dict(self) -> dict[str, Any]:
        """The state of the optimizer: `state`, by the number of the parameter, and `param_groups`, with numbers in place of
        parameters."""
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups: list[dict[str, Any]] = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in tuple(self._state_dict_post_hooks.values()):
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over the state of an optimizer with as many groups of as many parameters. Tensors are copied to the dtype and
        device of their parameters."""
        state_dict = dict(state_dict)
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups: "
                             f"{len(saved)} instead of {len(self.param_groups)}")
        for i, (theirs, ours) in enumerate(zip(saved, self.param_groups)):
            if len(theirs["params"]) != len(ours["params"]):
                raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's "
                                 f"group: group {i} has {len(theirs['params'])} parameters instead of {len(ours['params'])}")
        params: dict[Any, Tensor] = {}
        groups_of: dict[Any, dict[str, Any]] = {}
        for theirs, ours in zip(saved, self.param_groups):
            for number, param in zip(theirs["params"], ours["params"]):
                params[number], groups_of[number] = param, theirs
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _fitted(params[key], value, groups_of[key])
            else:
                state[key] = deepcopy(value)
        groups = []
        for theirs, ours in zip(saved, self.param_groups):
            group = {key: deepcopy(value) for key, value in theirs.items() if key != "params"}
            groups.append({"params": ours["params"], **group})
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in tuple(self._load_state_dict_post_hooks.values()):
            hook(self)


def _fitted(param: Tensor, value: Any, group: dict[str, Any], key: Any = None) -> Any:
    """A copy of a value of a state; tensors with the dtype and on the device of the parameter."""
    if isinstance(value, Tensor):
        if key == "step":
            if group.get("capturable") or group.get("fused"):
                return value.detach().to(device=param.device, dtype=_native.float32, copy=True)
            return value.detach().clone()
        if param.is_floating_point() and value.is_floating_point() or param.is_complex() and value.is_complex():
            return value.detach().to(device=param.device, dtype=param.dtype, copy=True)
        return value.detach().to(device=param.device, copy=True)
    if isinstance(value, dict):
        return {k: _fitted(param, v, group, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fitted(param, v, group) for v in value)
    return deepcopy(value)


def _enable_grad() -> ContextManager[None]:
    from ..autograd import enable_grad
    return enable_grad()


def _check_rate(lr: Union[float, Tensor]) -> None:
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    elif not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def _check(value: float, name: str) -> None:
    if not 0.0 <= value:
        raise ValueError(f"Invalid {name} value: {value}")


def _refuse_differentiable(differentiable: bool) -> None:
    if differentiable:
        raise NotImplementedError("differentiable=True: steps are not recorded by autograd; compute the update with ops instead")
