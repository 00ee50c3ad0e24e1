"""From a list of examples to a batch."""
from __future__ import annotations

import collections.abc
from typing import Any

from ... import _native


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _is_number_array(value: Any) -> bool:
    return value.dtype.kind in "biufc"


def default_convert(data: Any) -> Any:
    """The same structure with NumPy's arrays as tensors."""
    if isinstance(data, _native.Tensor):
        return data
    if _is_array(data):
        return _native.as_tensor(data) if _is_number_array(data) else data
    if isinstance(data, collections.abc.Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple):
        made = [default_convert(each) for each in data]
        return type(data)(*made) if hasattr(data, "_fields") else made
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return [default_convert(each) for each in data]
    return data


def default_collate(batch: Any) -> Any:
    """Tensors, arrays and numbers are stacked along a new first dim; dicts, tuples and lists of them place by place;
    texts and bytes stay lists."""
    first = batch[0]
    if isinstance(first, _native.Tensor):
        return _native.stack(list(batch), 0)
    if _is_array(first):
        if not _is_number_array(first):
            raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                            f"an array of {first.dtype}")
        return _native.stack([_native.as_tensor(each) for each in batch], 0)
    if isinstance(first, bool):
        return _native.tensor(list(batch), dtype=_native.bool)
    if isinstance(first, float):
        return _native.tensor(list(batch), dtype=_native.float64)
    if isinstance(first, int):
        return _native.tensor(list(batch), dtype=_native.int64)
    if isinstance(first, complex):
        return _native.tensor(list(batch), dtype=_native.complex128)
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, collections.abc.Mapping):
        return {key: default_collate([each[key] for each in batch]) for key in first}
    if isinstance(first, collections.abc.Sequence):
        if any(len(each) != len(first) for each in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(list(column)) for column in zip(*batch)]
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    raise TypeError("default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                    f"{type(first).__name__}; give the DataLoader a collate_fn")


def pin(batch: Any) -> Any:
    """The same structure with tensors in page-locked memory."""
    if isinstance(batch, _native.Tensor):
        return batch.pin_memory()
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, collections.abc.Mapping):
        return {key: pin(value) for key, value in batch.items()}
    if isinstance(batch, tuple):
        made = [pin(each) for each in batch]
        return type(batch)(*made) if hasattr(batch, "_fields") else tuple(made)
    if isinstance(batch, list):
        return [pin(each) for each in batch]
    return batch
