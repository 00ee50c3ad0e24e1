"""facula.save and facula.load: tensors and what goes with them (numbers, texts, dicts, lists), as data and nothing
else.

A file is safetensors. Tensors are named by where they are ("optimizer.state.0.exp_avg"); how they belong together is a
tree of JSON in the metadata, in the form that src/io/archive_tree.h describes, so that C++ reads and writes the same
files. A plain dict of tensors needs no tree: it is what every reader of safetensors knows. """
from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import IO, Any, NoReturn, Optional, Union

from . import _native, safetensors
from ._native import Tensor

__all__ = ["load", "save"]

_TREE = "facula.tree"
_MOST_NESTED = 60  # C++ follows 192 brackets, and a dict has three


class _Writer:
    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.is_plain = True
        self._names: dict[Any, str] = {}  # what lies where -> the name under which it is written
        self._open: list[int] = []  # ids of the containers around the current place

    def tree(self, value: Any, path: str = "") -> Any:
        node = self._simple(value)
        if node is not _NOT_SIMPLE:
            self.is_plain = False
            return node
        if isinstance(value, _native.Tensor):
            return self._tensor(value, path or "0", is_root=not path)
        if isinstance(value, (dict, list, tuple)):
            return self._container(value, path)
        if hasattr(value, "state_dict"):
            raise TypeError(f"save(): '{path}' is a {type(value).__name__}; save what its state_dict() gives")
        if type(value).__module__.startswith("numpy"):
            raise TypeError(f"save(): '{path}' is of NumPy; save facula.as_tensor(...) of it, or .item() of a number")
        raise TypeError(f"save(): '{path}' is a {type(value).__module__}.{type(value).__qualname__}; a file holds "
                        "tensors, numbers, texts, bytes, None, dtypes, devices, and dicts, lists and tuples of them")

    @staticmethod
    def _simple(value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if -2**63 <= value < 2**63 else {"int": str(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is complex:
            return {"complex": [_Writer._simple(value.real), _Writer._simple(value.imag)]}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind is _native.dtype:
            return {"dtype": str(value).rpartition(".")[2]}
        if kind is _native.device:
            return {"device": str(value)}
        return _NOT_SIMPLE

    def _container(self, value: Union[dict[Any, Any], Sequence[Any]], path: str) -> Any:
        if id(value) in self._open:
            raise ValueError(f"save(): '{path}' contains itself")
        if len(self._open) >= _MOST_NESTED:
            raise ValueError(f"save(): '{path}' is nested deeper than {_MOST_NESTED} times")
        self.is_plain = self.is_plain and not path and isinstance(value, dict)
        self._open.append(id(value))
        below = f"{path}." if path else ""
        node: Any
        if isinstance(value, dict):
            pairs: list[list[Any]] = []
            seen: set[str] = set()
            for key, each in value.items():
                if type(key) not in (str, int):
                    raise TypeError(f"save(): keys of dicts must be texts or whole numbers; '{path}' has {key!r}")
                if type(key) is int:
                    self.is_plain = False
                    if not -2**63 <= key < 2**63:
                        raise ValueError(f"save(): the key {key} of '{path}' is too large")
                if str(key) in seen:
                    raise ValueError(f"save(): '{path}' has the key {key!r} as text and as number")
                seen.add(str(key))
                pairs.append([key, self.tree(each, below + str(key))])
            node = {"dict": pairs}
        else:
            items = [self.tree(each, f"{below}{i}") for i, each in enumerate(value)]
            if isinstance(value, list):
                node = items
            else:
                node = {"size" if type(value) is _native.Size else "tuple": items}
        self._open.pop()
        return node

    def _tensor(self, tensor: Tensor, path: str, is_root: bool) -> dict[str, Any]:
        if tensor.is_meta:
            raise ValueError(f"save(): tensor '{path}' is on the meta device and has no data")
        value = tensor.detach()
        # Tensors are gone when this writer is, so their addresses say who is who.
        place = (value.device, value.data_ptr(), value.dtype, tuple(value.shape), value.stride()) if value.numel() else None
        node: dict[str, Any] = {"tensor": self._names.get(place, path)}
        is_complex = value.dtype in (_native.complex32, _native.complex128)
        if node["tensor"] == path:
            if path in self.tensors:
                raise ValueError(f"save(): two tensors would be called '{path}'; keys with points in them meet nested dicts")
            if place is not None:
                self._names[place] = path
            self.tensors[path] = _native.view_as_real(value) if is_complex else value
        else:
            self.is_plain = False
        if tensor.requires_grad:
            node["requires_grad"] = True
        if is_complex:
            node["complex"] = True
        self.is_plain = self.is_plain and not is_root and len(node) == 1
        return node


_NOT_SIMPLE = object()


class _Reader:
    def __init__(self, tensors: dict[str, Tensor], source: str) -> None:
        self.tensors, self.source = tensors, source
        self._made: dict[tuple[str, bool, bool], Tensor] = {}

    def fail(self, what: str) -> NoReturn:
        raise _native.FormatError(f"{self.source}: the tree in its metadata is damaged: {what}")

    def value(self, node: Any) -> Any:
        if node is None or type(node) in (bool, int, float, str):
            return node
        if type(node) is list:
            return [self.value(each) for each in node]
        if type(node) is not dict or not node:
            self.fail(f"unknown node {node!r:.80}")
        if "tensor" in node:
            return self._tensor(node)
        if len(node) != 1:
            self.fail(f"unknown node {node!r:.80}")
        (kind, content), = node.items()
        make = getattr(self, f"_make_{kind}", None)
        if make is None:
            self.fail(f"a node of the unknown kind {kind!r:.80}")
        return make(content)

    def _tensor(self, node: dict[str, Any]) -> Tensor:
        name = node["tensor"]
        if type(name) is not str or name not in self.tensors:
            self.fail(f"it names the tensor {name!r:.80}, which is not in the file")
        flags = {key: node[key] for key in node if key != "tensor"}
        if not flags.keys() <= {"requires_grad", "complex"} or not all(type(v) is bool for v in flags.values()):
            self.fail(f"unknown node {node!r:.80}")
        key = (name, flags.get("complex", False), flags.get("requires_grad", False))
        if key not in self._made:
            tensor = self.tensors[name]
            if key[1]:
                if tensor.dtype not in (_native.float16, _native.float32, _native.float64) or tensor.shape[-1:] != (2,):
                    self.fail(f"the complex tensor {name!r:.80} is stored as {tensor.dtype} of shape {tuple(tensor.shape)}")
                tensor = _native.view_as_complex(tensor)
            if key[2]:
                if not (tensor.is_floating_point() or tensor.is_complex()):
                    self.fail(f"the tensor {name!r:.80} of dtype {tensor.dtype} cannot require gradients")
                tensor = tensor.detach().requires_grad_()
            self._made[key] = tensor
        return self._made[key]

    def _list(self, content: Any) -> list[Any]:
        if type(content) is not list:
            self.fail(f"expected a list, found {content!r:.80}")
        return content

    def _text(self, content: Any) -> str:
        if type(content) is not str:
            self.fail(f"expected a text, found {content!r:.80}")
        return content

    def _make_dict(self, content: Any) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for pair in self._list(content):
            if type(pair) is not list or len(pair) != 2 or type(pair[0]) not in (str, int):
                self.fail(f"an entry of a dict is {pair!r:.80}")
            if pair[0] in made:
                self.fail(f"a dict has the key {pair[0]!r:.80} twice")
            made[pair[0]] = self.value(pair[1])
        return made

    def _make_tuple(self, content: Any) -> tuple[Any, ...]:
        return tuple(self.value(each) for each in self._list(content))

    def _make_size(self, content: Any) -> _native.Size:
        if not all(type(each) is int for each in self._list(content)):
            self.fail("a size holds whole numbers only")
        return _native.Size(content)

    def _make_float(self, content: Any) -> float:
        if content not in ("nan", "inf", "-inf"):
            self.fail(f"no number: {content!r:.80}")
        return float(content)

    def _make_int(self, content: Any) -> int:
        digits = self._text(content)
        if not digits.lstrip("-").isdecimal() or not digits.isascii() or len(digits) > 4000:
            self.fail(f"no whole number: {digits!r:.80}")
        return int(digits)

    def _make_complex(self, content: Any) -> complex:
        parts = [self.value(each) for each in self._list(content)]
        if len(parts) != 2 or not all(type(each) in (int, float) for each in parts):
            self.fail(f"no complex number: {content!r:.80}")
        return complex(*parts)

    def _make_bytes(self, content: Any) -> bytes:
        try:
            return bytes.fromhex(self._text(content))
        except ValueError:
            self.fail(f"no bytes: {content!r:.80}")

    def _make_dtype(self, content: Any) -> _native.dtype:
        found = getattr(_native, self._text(content), None)
        if type(found) is not _native.dtype:
            self.fail(f"no dtype: {content!r:.80}")
        return found

    def _make_device(self, content: Any) -> _native.device:
        kind, _, index = self._text(content).partition(":")
        if kind not in ("cpu", "cuda", "meta") or (index and not (index.isdecimal() and index.isascii() and len(index) < 4)):
            self.fail(f"no device: {content!r:.80}")
        return _native.device(content)


def _no_constants(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key comes twice")
    return made


def save(obj: Any, f: Union[str, "os.PathLike[str]", IO[bytes]]) -> None:
    """Saves a tensor, a state dict, or dicts, lists and tuples of tensors, numbers and texts.

    `f` is a path, which is replaced as a whole or not at all, or an open file. Tensors that are the same stay the
    same."""
    writer = _Writer()
    tree = writer.tree(obj)
    metadata = {"format": "facula"}
    if not writer.is_plain:
        metadata[_TREE] = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if hasattr(f, "write"):
        f.write(_native._safetensors_save(writer.tensors, metadata))
    else:
        _native._safetensors_save_file(writer.tensors, os.fsdecode(f), metadata)


def load(f: Union[str, "os.PathLike[str]", IO[bytes]], map_location: Union[_native.device, str, int, None] = None, *,
         weights_only: bool = True, mmap: Optional[bool] = None) -> Any:
    """What save() has saved; of any other safetensors file, the dict of its tensors.

    Tensors are on the CPU unless `map_location` names another device. Those of a path share the memory of a map of the
    file, and writing to them does not change it; `mmap=False` copies them. Reading runs nothing that a file holds, so
    there is no other way than `weights_only`."""
    if not weights_only:
        raise _native.ArgumentError("load(): files are data, and reading one runs nothing; leave weights_only as it is")
    if map_location is not None and not isinstance(map_location, (str, int, _native.device)):
        raise TypeError("load(): map_location is a device; move single tensors afterwards")
    if hasattr(f, "read"):
        data = bytes(f.read())
        source, tensors = "load(): the open file", _native._safetensors_load(data)
        metadata = _native._safetensors_metadata(data)
    else:
        path = safetensors._checked_path(f)
        file = _native._SafetensorsFile(path)
        source, tensors, metadata = f"load(): '{path}'", file.all(), file.metadata()
        if mmap is not None and not mmap:
            tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    tensors = safetensors._moved(tensors, map_location)
    if _TREE not in metadata:
        return tensors
    try:
        tree = json.loads(metadata[_TREE], parse_constant=_no_constants, object_pairs_hook=_no_duplicates)
        return _Reader(tensors, source).value(tree)
    except (ValueError, RecursionError) as error:
        if isinstance(error, _native.FormatError):
            raise
        raise _native.FormatError(f"{source}: the tree in its metadata is damaged: {error}") from None
