"""A part of a dataset for each of several processes."""
from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Optional

from ... import _native
from .sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, from `rank` on. All parts have the same number: without `drop_last` some indices
    come twice, with it some are left out."""

    def __init__(self, dataset: Sized, num_replicas: Optional[int] = None, rank: Optional[int] = None,
                 shuffle: bool = True, seed: int = 0, drop_last: bool = False) -> None:
        if num_replicas is None or rank is None:
            raise ValueError("DistributedSampler: give num_replicas and rank")
        if not 0 <= rank < num_replicas:
            raise ValueError(f"DistributedSampler: Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            generator = _native.Generator().manual_seed(self.seed + self.epoch)
            indices = _native.randperm(len(self.dataset), generator=generator).tolist()
        if indices and len(indices) < self.total_size:
            indices = (indices * math.ceil(self.total_size / len(indices)))[:self.total_size]
        return iter(indices[self.rank:self.total_size:self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Each epoch is shuffled in another way, the same in all processes."""
        self.epoch = epoch
