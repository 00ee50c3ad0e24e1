"""The DataLoader: batches of a dataset, made ahead of time by threads."""
from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Generic, Optional, TypeVar, Union, cast

from ... import _native
from ..._native import Generator
from ._collate import default_collate, default_convert, pin
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

T_co = TypeVar("T_co", covariant=True)
_Job = Callable[[], Any]  # gives the batch


@dataclass
class WorkerInfo:
    """Which worker the calling thread is."""
    id: int
    num_workers: int
    seed: int
    dataset: Any


_current = threading.local()


def get_worker_info() -> Optional[WorkerInfo]:
    """In a worker, its WorkerInfo; elsewhere None."""
    return getattr(_current, "info", None)


class _Pool:
    """Threads that run jobs. Results are taken by the number of the job, or as they are ready."""

    def __init__(self, count: int, dataset: Any, init: Optional[Callable[[int], None]], seed: int) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[tuple[int, _Job]] = deque()
        self._results: dict[int, tuple[Any, Optional[BaseException]]] = {}
        self._running, self._stopped = 0, False
        # Threads know the pool's parts and not the loader, so that a loader that nobody has any more ends them.
        self.threads = [threading.Thread(target=self._run, args=(WorkerInfo(i, count, seed + i, dataset), init),
                                         name=f"facula-data-{i}", daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, info: WorkerInfo, init: Optional[Callable[[int], None]]) -> None:
        _current.info = info
        failed: Optional[Exception] = None
        if init is not None:
            try:
                init(info.id)
            except Exception as error:  # told with the next batch
                failed = error
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._jobs)
                if self._stopped:
                    return
                number, job = self._jobs.popleft()
                self._running += 1
            try:
                if failed is not None:
                    raise failed
                result: tuple[Any, Optional[BaseException]] = (job(), None)
            except BaseException as error:  # noqa: B902: carried to the caller, whatever it is
                if hasattr(error, "add_note"):
                    error.add_note(f"(in worker {info.id} of the DataLoader)")
                result = (None, error)
            with self._changed:
                self._running -= 1
                self._results[number] = result
                self._changed.notify_all()
            del job, result  # nothing of the batch stays here while the thread waits

    def clear(self) -> None:
        """Forgets jobs and results, and waits for what runs."""
        with self._changed:
            self._jobs.clear()
            self._changed.wait_for(lambda: self._running == 0)
            self._results.clear()

    def push(self, number: int, job: _Job) -> None:
        with self._changed:
            self._jobs.append((number, job))
            self._changed.notify_all()

    def pop(self, number: Optional[int], timeout: float) -> Any:
        """The result of a job; of any job when the number is None."""
        with self._changed:
            ready: Callable[[], Any] = (lambda: self._results) if number is None else (lambda: number in self._results)
            if not self._changed.wait_for(ready, timeout or None):
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
            result, error = self._results.pop(next(iter(self._results)) if number is None else number)
        if error is not None:
            raise error
        return result

    def stop(self, wait: bool = True) -> None:
        with self._changed:
            self._stopped = True
            self._jobs.clear()
            self._changed.notify_all()
        if wait:
            for thread in self.threads:
                if thread is not threading.current_thread():
                    thread.join()


class DataLoader(Generic[T_co]):
    """Batches of a dataset.

    With `num_workers` threads make batches ahead, `prefetch_factor` of them each; with 0 each is made when it is asked
    for. An error in a dataset is raised by the loop that wants the batch. Threads end with the epoch, or with the
    loader when `persistent_workers` is set."""

    def __init__(self, dataset: Dataset[T_co], batch_size: Optional[int] = 1, shuffle: Optional[bool] = None,
                 sampler: Union[Sampler[Any], Iterable[Any], None] = None,
                 batch_sampler: Union[Sampler[list[Any]], Iterable[list[Any]], None] = None, num_workers: int = 0,
                 collate_fn: Optional[Callable[[list[Any]], Any]] = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0, worker_init_fn: Optional[Callable[[int], None]] = None,
                 multiprocessing_context: Any = None, generator: Optional[Generator] = None, *,
                 prefetch_factor: Optional[int] = None, persistent_workers: bool = False, pin_memory_device: str = "",
                 in_order: bool = True) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable threads")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified with workers; set num_workers > 0")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError("prefetch_factor option should be at least 1")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if multiprocessing_context is not None:
            raise ValueError("multiprocessing_context option: workers are threads; leave it out")
        self.dataset, self.num_workers, self.pin_memory = dataset, num_workers, pin_memory
        self.pin_memory_device, self.timeout, self.worker_init_fn = pin_memory_device, timeout, worker_init_fn
        self.generator, self.persistent_workers, self.in_order = generator, persistent_workers, in_order
        self.prefetch_factor = (prefetch_factor or 2) if num_workers else None
        self._is_iterable = isinstance(dataset, IterableDataset)

        if self._is_iterable:
            if shuffle not in (False, None) or sampler is not None or batch_sampler is not None:
                raise ValueError("DataLoader with IterableDataset: expected unspecified shuffle, sampler and batch_sampler "
                                 "options")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None and not self._is_iterable:
            sized = cast(Sized, dataset)
            sampler = RandomSampler(sized, generator=generator) if shuffle else SequentialSampler(sized)
        if batch_size is not None and batch_sampler is None and not self._is_iterable:
            batch_sampler = BatchSampler(cast("Iterable[Any]", sampler), batch_size, drop_last)
        if batch_size is not None and self._is_iterable and (type(batch_size) is not int or batch_size <= 0):
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = batch_size, drop_last, sampler, batch_sampler
        self._is_batched = batch_sampler is not None or (self._is_iterable and batch_size is not None)
        self.collate_fn = collate_fn or (default_collate if self._is_batched else default_convert)
        self._pool: Optional[_Pool] = None
        self._epoch: Optional[weakref.ref[_Epoch]] = None

    def __len__(self) -> int:
        if self._is_iterable:
            length = len(cast(Sized, self.dataset))
            if self.batch_size is not None:
                length = length // self.batch_size if self.drop_last else -(-length // self.batch_size)
            return length
        return len(cast(Sized, self.batch_sampler if self._is_batched else self.sampler))

    def __iter__(self) -> _Epoch:
        if self.num_workers == 0:
            return _Epoch(self, None)
        if not self.persistent_workers:
            return _Epoch(self, self._make_pool())
        if self._pool is None:
            self._pool = self._make_pool()
            weakref.finalize(self, self._pool.stop, wait=False)
        # The threads work for one epoch at a time: one that is under way ends here.
        before = self._epoch() if self._epoch is not None else None
        if before is not None:
            before._finish()
        self._pool.clear()
        epoch = _Epoch(self, self._pool)
        self._epoch = weakref.ref(epoch)
        return epoch

    def _make_pool(self) -> _Pool:
        count = 1 if self._is_iterable else self.num_workers
        return _Pool(count, self.dataset, self.worker_init_fn, _native.initial_seed())

    def _epoch_seed(self) -> int:
        if self.generator is None:
            return _native._draw_epoch_seed()
        return int(_native.empty((), dtype=_native.int64).random_(generator=self.generator).item())


def _fetch(dataset: Any, indices: Any, is_batched: bool, collate: Callable[[Any], Any]) -> Any:
    if not is_batched:
        return collate(dataset[indices])
    if callable(getattr(dataset, "__getitems__", None)):
        return collate(dataset.__getitems__(indices))
    return collate([dataset[i] for i in indices])


class _Epoch:
    """One walk over the batches."""

    def __init__(self, loader: DataLoader[Any], pool: Optional[_Pool]) -> None:
        self._pool, self._timeout, self._in_order = pool, loader.timeout, loader.in_order
        self._ends_pool = pool is not None and not loader.persistent_workers
        self._seed = loader._epoch_seed()
        self._alone = pool is not None
        self._pin = loader.pin_memory and _has_gpu()
        self._pushed = self._popped = 0
        self._over = False
        self._lookahead = 0 if pool is None else cast(int, loader.prefetch_factor) * loader.num_workers
        self._jobs: Iterator[_Job]
        if loader._is_iterable:
            self._jobs = self._stream_jobs(loader)
        else:
            self._jobs = self._index_jobs(loader)
        if pool is not None and self._ends_pool:
            weakref.finalize(self, pool.stop, wait=False)
        for _ in range(self._lookahead):
            self._push()

    # A job is a function without arguments that gives the batch.

    @staticmethod
    def _index_jobs(loader: DataLoader[Any]) -> Iterator[_Job]:
        dataset, is_batched, collate = loader.dataset, loader._is_batched, loader.collate_fn
        for indices in cast("Iterable[Any]", loader.batch_sampler if is_batched else loader.sampler):
            yield functools.partial(_fetch, dataset, indices, is_batched, collate)

    @staticmethod
    def _stream_jobs(loader: DataLoader[Any]) -> Iterator[_Job]:
        """Endless: each takes the next examples, and gives _END when there are none. One thread runs them in order."""
        dataset: Any = loader.dataset
        size, collate, drop_last = loader.batch_size, loader.collate_fn, loader.drop_last
        state: dict[str, Any] = {"iterator": None}

        def job() -> Any:
            if state["iterator"] is None:
                state["iterator"] = iter(dataset)
            taken = list(itertools.islice(state["iterator"], 1 if size is None else size))
            if not taken or (size is not None and len(taken) < size and drop_last):
                return _END
            return collate(taken[0] if size is None else taken)

        while True:
            yield job

    def _push(self) -> None:
        if self._over:
            return
        job = next(self._jobs, None)
        if job is None:
            self._over = True
            return
        seed, number, alone, pins = self._seed, self._pushed, self._alone, self._pin

        def run() -> Any:
            with _native._JobContext(seed, number, alone):
                try:
                    batch = job()
                except StopIteration as error:  # would end the caller's loop as if all were well
                    raise RuntimeError("DataLoader: the dataset raised StopIteration") from error
            return pin(batch) if pins and batch is not _END else batch

        self._pushed += 1
        if self._pool is None:
            self._ready = run
        else:
            self._pool.push(number, run)

    def __iter__(self) -> _Epoch:
        return self

    def __next__(self) -> Any:
        try:
            if self._pool is None:
                self._push()
            if self._popped == self._pushed:
                self._finish()
                raise StopIteration
            number, self._popped = self._popped, self._popped + 1
            if self._pool is None:
                batch = self._ready()
            else:
                batch = self._pool.pop(number if self._in_order else None, self._timeout)
        except StopIteration:
            raise
        except BaseException:
            self._finish()
            raise
        if batch is _END:
            self._finish()
            raise StopIteration
        if self._pool is not None:
            self._push()
        return batch

    def _finish(self) -> None:
        """Nothing more comes. The threads of this epoch end, and are waited for."""
        self._over, self._pushed, self._jobs = True, self._popped, iter(())
        if self._pool is not None and self._ends_pool:
            self._pool.stop()


_END = object()


def _has_gpu() -> bool:
    from ... import cuda
    return cuda.is_available()
