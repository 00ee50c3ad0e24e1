"""Datasets, samplers and the DataLoader, by PyTorch's names.

Workers are threads of this process, not processes: nothing is pickled, datasets are shared and not copied, and ops let
go of Python's lock while they compute. The batches, their order and the random numbers that a dataset draws with facula
are the same for any number of workers, none included: each batch has a stream of its own. The generators of `random`
and NumPy belong to the whole process and have no such streams. """
from __future__ import annotations

from . import distributed
from ._collate import default_collate, default_convert
from .dataloader import DataLoader, WorkerInfo, get_worker_info
from .dataset import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset,
                      random_split)
from .distributed import DistributedSampler
from .sampler import (BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
                      WeightedRandomSampler)

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
           "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
           "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "WorkerInfo", "default_collate",
           "default_convert", "distributed", "get_worker_info", "random_split"]
