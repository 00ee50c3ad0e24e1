"""Where examples come from."""
from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, Optional, TypeVar, Union, cast

from ... import _native
from ..._native import Generator, Tensor

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Dataset(Generic[T_co]):
    """Examples by index: a class of yours with `__getitem__` and `__len__`. `__getitems__`, where it exists, is called
    with all indices of a batch at once and gives a list."""

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Examples one after the other: a class of yours with `__iter__`. One thread walks over it, whatever the number of
    workers, so that nothing comes twice."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[T_co]) -> ChainDataset[T_co]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The rows of tensors with the same first size: tuples of one row of each."""

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            raise _native.ShapeError("TensorDataset: Size mismatch between tensors: their first sizes are "
                                     f"{[tensor.size(0) for tensor in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Several datasets of the same length, side by side: tuples by position, dicts by name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: give datasets either by position or by name")
        self.datasets: Union[tuple[Any, ...], dict[str, Any]] = args if args else kwargs
        lengths = [len(each) for each in (args or kwargs.values())]
        if len(set(lengths)) != 1:
            raise ValueError(f"StackDataset: Size mismatch between datasets: {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Datasets one behind the other."""

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        ends, total = [], 0
        for each in sequence:
            total += len(each)
            ends.append(total)
        return ends

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: datasets should not be an empty iterable")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise ValueError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError(f"ConcatDataset: index {index} is out of range for {len(self)} examples")
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[T_co]):
    """Streams one behind the other."""

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[T_co]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise TypeError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(cast(Sized, dataset)) for dataset in self.datasets)


class Subset(Dataset[T_co]):
    """Some examples of a dataset, by their indices."""

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[T_co]:
        chosen = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        if callable(many):
            return cast("list[T_co]", many(chosen))
        return [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[T], lengths: Sequence[Union[int, float]],
                 generator: Optional[Generator] = None) -> list[Subset[T]]:
    """Parts of a dataset that share no example: `lengths` are numbers of examples, or shares that add up to 1."""
    counts: list[Any] = list(lengths)
    size = len(cast(Sized, dataset))
    if math.isclose(sum(counts), 1) and sum(counts) <= 1 and not all(type(count) is int for count in counts):
        if any(not 0 <= share <= 1 for share in counts):
            raise ValueError(f"random_split: shares must be between 0 and 1, got {counts}")
        counts = [math.floor(size * share) for share in counts]
        for i in range(size - sum(counts)):
            counts[i % len(counts)] += 1
    if sum(counts) != size:
        raise ValueError("random_split: Sum of input lengths does not equal the length of the input dataset! "
                         f"{counts} and {size}")
    order = _native.randperm(sum(counts), generator=generator).tolist()
    parts, begin = [], 0
    for length in counts:
        parts.append(Subset(dataset, order[begin:begin + length]))
        begin += length
    return parts
