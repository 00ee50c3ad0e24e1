"""In which order the examples of a dataset are asked for."""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, Optional, TypeVar, Union, cast

from ... import _native
from ..._native import Generator, Tensor

T_co = TypeVar("T_co", covariant=True)


def fresh_generator(generator: Optional[Generator]) -> Generator:
    """The caller's generator, or a new one whose seed comes from the default generator."""
    if generator is not None:
        return generator
    seed = int(_native.empty((), dtype=_native.int64).random_().item())
    return _native.Generator().manual_seed(seed)


class Sampler(Generic[T_co]):
    """Gives indices, or lists of them for a batch_sampler: a class of yours with `__iter__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Shuffled indices; with `replacement` drawn each for itself."""

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: Optional[int] = None,
                 generator: Optional[Generator] = None) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement should be a boolean value, but got {replacement!r}")
        self.data_source, self.replacement, self._num_samples = data_source, replacement, num_samples
        self.generator = generator
        if type(self.num_samples) is not int or self.num_samples < 0:
            raise ValueError(f"RandomSampler: num_samples should be a non-negative integer, but got {self.num_samples!r}")

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, generator = len(self.data_source), fresh_generator(self.generator)
        if count == 0:
            if self.num_samples:
                raise ValueError("RandomSampler: there is nothing to draw from")
            return
        if self.replacement:
            left = self.num_samples
            while left:
                number = min(left, 1 << 16)
                yield from _native.randint(0, count, (number,), generator=generator).tolist()
                left -= number
            return
        for begin in range(0, self.num_samples, count):
            order = _native.randperm(count, generator=generator).tolist()
            yield from order[:self.num_samples - begin]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices, shuffled."""

    def __init__(self, indices: Sequence[int], generator: Optional[Generator] = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for i in _native.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with the given weights."""

    def __init__(self, weights: Union[Sequence[float], Tensor], num_samples: int, replacement: bool = True,
                 generator: Optional[Generator] = None) -> None:
        if type(num_samples) is not int or num_samples <= 0:
            raise ValueError(f"WeightedRandomSampler: num_samples should be a positive integer, but got {num_samples!r}")
        if not isinstance(replacement, bool):
            raise ValueError(f"WeightedRandomSampler: replacement should be a boolean value, but got {replacement!r}")
        self.weights = _native.as_tensor(weights, dtype=_native.float64)
        if self.weights.dim() != 1:
            raise ValueError("WeightedRandomSampler: weights should be a 1d sequence but given weights have shape "
                             f"{tuple(self.weights.shape)}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = _native.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[Any]]):
    """Lists of `batch_size` of the indices of another sampler."""

    def __init__(self, sampler: Union[Sampler[Any], Iterable[Any]], batch_size: int, drop_last: bool) -> None:
        if type(batch_size) is not int or batch_size <= 0:
            raise ValueError(f"BatchSampler: batch_size should be a positive integer value, but got {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last should be a boolean value, but got {drop_last!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(cast(Sized, self.sampler))
        if self.drop_last:
            return count // self.batch_size
        return (count + self.batch_size - 1) // self.batch_size
