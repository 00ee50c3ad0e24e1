"""Modules and parameters in order or by name."""
from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Optional, Union

from ..._native import Tensor
from ..parameter import Parameter
from .module import Module

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


def _place(index: Any, size: int, what: str) -> int:
    """An index from the front, checked."""
    at = operator.index(index)
    if not -size <= at < size:
        raise IndexError(f"index {at} is out of range of a {what} with {size} entries")
    return at % size


class Sequential(Module):
    """Modules that run one after the other: each gets what the one before it gives."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for place, module in enumerate(args):
                self.add_module(str(place), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: Union[int, slice]) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return next(islice(self._modules.values(), _place(index, len(self), "Sequential"), None))

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[_place(index, len(self), "Sequential")], module)

    def __delitem__(self, index: Union[int, slice]) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [names[_place(index, len(self), "Sequential")]]:
            delattr(self, name)
        self._number(list(self._modules.values()))

    def _number(self, modules: Iterable[Any]) -> None:
        """Names are places again."""
        self._modules.clear()
        for place, module in enumerate(modules):
            self.add_module(str(place), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __add__(self, other: "Sequential") -> "Sequential":
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other).__name__} is given.")
        return Sequential(*self, *other)

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Adds a module at a place."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index if index >= 0 else index + len(self), module)
        self._number(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: Union[int, slice]) -> Module:
        """Takes a module out."""
        module = self[key]
        del self[key]
        return module


class ModuleList(Module):
    """Modules in order, which others call."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Optional[Iterable[Module]] = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Union[int, slice]) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(_place(index, len(self), "ModuleList"))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(_place(index, len(self), "ModuleList")), module)

    def __delitem__(self, index: Union[int, slice]) -> None:
        modules = list(self._modules.values())
        del modules[index]
        self._number(modules)

    def _number(self, modules: Iterable[Any]) -> None:
        self._modules.clear()
        for place, module in enumerate(modules):
            self.add_module(str(place), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __add__(self, other: Iterable[Module]) -> "ModuleList":
        return ModuleList([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> Self:
        return self.extend(other)

    def insert(self, index: int, module: Module) -> None:
        """Adds a module at a place."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._number(modules)

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Union[int, slice]) -> Module:
        """Takes a module out."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self


class ModuleDict(Module):
    """Modules by name, in the order in which they came."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Takes all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Takes a module out."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        return self._modules.keys()

    def items(self) -> Any:
        return self._modules.items()

    def values(self) -> Any:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Replaces modules of the same names and adds the others."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleDict.update should be called with an iterable of key/value pairs, but got "
                            f"{type(modules).__name__}")
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for key, module in pairs:
            self[key] = module


def _line(name: Any, value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"({name}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = "" if value.device.type == "cpu" else f" ({value.device})"
    return f"({name}): {kind} containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}{where}]"


class ParameterList(Module):
    """Parameters in order. Tensors become parameters."""

    def __init__(self, values: Optional[Iterable[Any]] = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Union[int, slice]) -> Any:
        if isinstance(index, slice):
            return type(self)([getattr(self, str(i)) for i in range(self._size)[index]])
        return getattr(self, str(_place(index, self._size, "ParameterList")))

    def __setitem__(self, index: int, value: Any) -> None:
        self._put(str(_place(index, self._size, "ParameterList")), value)

    def _put(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, name, value)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Adds a parameter at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds parameters at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_line(i, value) for i, value in enumerate(self))


class ParameterDict(Module):
    """Parameters by name, in the order in which they came. Tensors become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, Any] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                            f"'{type(key).__name__}').")
        self._keys[key] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        return self._keys.keys()

    def values(self) -> list[Any]:
        return [self[k] for k in self._keys]

    def items(self) -> list[tuple[str, Any]]:
        return [(k, self[k]) for k in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def pop(self, key: str) -> Any:
        """Takes a parameter out."""
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Takes all parameters out."""
        for key in list(self._keys):
            del self[key]

    def update(self, parameters: Any) -> None:
        """Replaces parameters of the same names and adds the others."""
        pairs = parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_line(k, v) for k, v in self.items())
