"""Files of tensors in the safetensors format.

    from facula.safetensors import load_file, save_file
    save_file({"weight": w}, "layer.safetensors", metadata={"made_by": "me"})
    w = load_file("layer.safetensors")["weight"]

Files are read by memory map: a tensor shares the memory of the map, and writing to it does not change the file. Saving
puts a new file in the place of the old one, as a whole or not at all. A file is data: reading one runs nothing, and
what is damaged raises facula.FormatError, which says what is wrong at which byte. """
from __future__ import annotations

import os as _os
from collections.abc import Mapping as _Mapping
from typing import Any as _Any
from typing import Optional as _Optional
from typing import Union as _Union

from . import _native
from ._native import Tensor as _Tensor

_Path = _Union[str, "_os.PathLike[str]"]
_Device = _Union[_native.device, str, int]

__all__ = ["load", "load_file", "safe_open", "save", "save_file"]


def _checked_path(filename: _Path) -> str:
    """A path as text; errors of opening are Python's own."""
    path = _os.fsdecode(filename)
    with open(path, "rb"):
        pass
    return path


def _moved(tensors: dict[str, _Tensor], device: _Optional[_Device]) -> dict[str, _Tensor]:
    if device is None or _native.device(device).type == "cpu":
        return tensors
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def load_file(filename: _Path, device: _Device = "cpu") -> dict[str, _Tensor]:
    """The tensors of a file by name, in the order of its header."""
    return _moved(_native._SafetensorsFile(_checked_path(filename)).all(), device)


def save_file(tensors: _Mapping[str, _Tensor], filename: _Path, metadata: _Optional[dict[str, str]] = None) -> None:
    """Writes tensors by name, and texts by name as metadata. Any device and any strides."""
    _native._safetensors_save_file(dict(tensors), _os.fsdecode(filename), metadata)


def load(data: bytes, device: _Device = "cpu") -> dict[str, _Tensor]:
    """The tensors in the bytes of a file."""
    return _moved(_native._safetensors_load(bytes(data)), device)


def save(tensors: _Mapping[str, _Tensor], metadata: _Optional[dict[str, str]] = None) -> bytes:
    """The bytes of a file."""
    return _native._safetensors_save(dict(tensors), metadata)


class _Slice:
    """A tensor of a file of which parts are taken: only these are read."""

    def __init__(self, tensor: _Tensor, device: _Device) -> None:
        self._tensor, self._device = tensor, device

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> _native.dtype:
        return self._tensor.dtype

    def __getitem__(self, index: _Any) -> _Tensor:
        part = self._tensor[index]
        return part if _native.device(self._device).type == "cpu" else part.to(self._device)


class safe_open:
    """An open file, of which single tensors are taken.

        with safe_open("model.safetensors", framework="pt") as f:
            for name in f.keys():
                tensor = f.get_tensor(name)
    """

    def __init__(self, filename: _Path, framework: str = "pt", device: _Device = "cpu") -> None:
        if framework not in ("pt", "facula"):
            raise _native.ArgumentError(f"safe_open(): tensors are facula's; framework must be 'pt', not {framework!r}")
        self._file = _native._SafetensorsFile(_checked_path(filename))
        self._device = device

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exception: object) -> None:
        pass  # the map lives as long as a tensor over it does

    def keys(self) -> list[str]:
        return self._file.keys()

    def offset_keys(self) -> list[str]:
        """The names in the order in which their bytes lie in the file."""
        return [info[0] for info in sorted(self._file.info(), key=lambda info: info[3])]

    def metadata(self) -> dict[str, str]:
        return self._file.metadata()

    def get_tensor(self, name: str) -> _Tensor:
        return _moved({name: self._file.tensor(name)}, self._device)[name]

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self._file.tensor(name), self._device)
