"""facula.utils.data: datasets, samplers, and a loader that gives the same for any number of workers."""
import gc
import threading
import time
from collections import namedtuple

import numpy as np
import pytest

import facula
from facula.utils.data import (BatchSampler, ChainDataset, ConcatDataset, DataLoader, Dataset, DistributedSampler,
                               IterableDataset, RandomSampler, SequentialSampler, StackDataset, Subset,
                               SubsetRandomSampler, TensorDataset, WeightedRandomSampler, default_collate, default_convert,
                               get_worker_info, random_split)
from seed import SEED

WORKERS = [0, 1, 3]


class Noisy(Dataset):
    """Index, a random number of facula, and slow for some indices."""

    def __init__(self, count=40):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(index % 5 * 0.0005)
        return index, facula.rand(2)


def walk(loader):
    return [[part.tolist() for part in batch] for batch in loader]


def no_workers_left():
    for _ in range(200):
        if not any(t.name.startswith("facula-data") for t in threading.enumerate()):
            return True
        time.sleep(0.01)
    return False


def test_the_number_of_workers_changes_nothing():
    results, after = [], []
    for workers in WORKERS:
        facula.manual_seed(SEED)
        loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=workers)
        results.append((walk(loader), walk(loader)))
        after.append(facula.rand(1).item())
    assert results[0][0] != results[0][1]
    assert sorted(i for batch in results[0][0] for i in batch[0]) == list(range(40))
    assert results[1] == results[0] and results[2] == results[0]
    assert after[1] == after[0] and after[2] == after[0]
    assert no_workers_left()


def test_generators_decide():
    made = []
    for _ in range(2):
        generator = facula.Generator().manual_seed(7)
        made.append(walk(DataLoader(Noisy(), batch_size=5, shuffle=True, num_workers=2, generator=generator)))
        facula.rand(3)
    assert made[0] == made[1]


@pytest.mark.parametrize("workers", WORKERS)
def test_batches(workers):
    x, y = facula.arange(10).reshape(5, 2), facula.arange(5.0)
    loader = DataLoader(TensorDataset(x, y), batch_size=2, num_workers=workers)
    assert len(loader) == 3
    batches = list(loader)
    assert facula.equal(facula.cat([b[0] for b in batches]), x) and facula.equal(facula.cat([b[1] for b in batches]), y)
    assert [len(b[0]) for b in DataLoader(TensorDataset(x), batch_size=2, drop_last=True, num_workers=workers)] == [2, 2]
    single = list(DataLoader(TensorDataset(x, y), batch_size=None, num_workers=workers))
    assert len(single) == 5 and single[1][0].tolist() == [2, 3]
    chosen = DataLoader(TensorDataset(x), batch_sampler=[[4, 0], [1]], num_workers=workers)
    assert [b[0].tolist() for b in chosen] == [[[8, 9], [0, 1]], [[2, 3]]]
    reverse = DataLoader([1, 2, 3], sampler=[2, 1, 0], batch_size=2, collate_fn=tuple, num_workers=workers)
    assert list(reverse) == [(3, 2), (1,)]


@pytest.mark.parametrize("workers", WORKERS)
def test_errors_reach_the_loop(workers):
    class Bad(Noisy):
        def __getitem__(self, index):
            if index == 9:
                raise KeyError("nine")
            if index == 11:
                raise StopIteration
            return index

    loader = DataLoader(Bad(), batch_size=2, num_workers=workers)
    seen = []
    with pytest.raises(KeyError, match="nine"):
        for batch in loader:
            seen.append(batch.tolist())
    assert seen == [[0, 1], [2, 3], [4, 5], [6, 7]]
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Bad(), batch_sampler=[[11]], num_workers=workers))
    assert no_workers_left()


def test_loops_that_are_left_end_their_threads():
    for persistent in (False, True):
        loader = DataLoader(Noisy(200), batch_size=2, num_workers=3, persistent_workers=persistent, prefetch_factor=3)
        for i, _ in enumerate(loader):
            if i == 2:
                break
        assert next(iter(loader))[0].tolist() == [0, 1]
        del loader
        gc.collect()
        assert no_workers_left()


def test_persistent_workers_stay():
    started = []
    loader = DataLoader(Noisy(20), batch_size=2, num_workers=2, persistent_workers=True, worker_init_fn=started.append)
    for _ in range(3):
        assert len(list(loader)) == 10
    assert sorted(started) == [0, 1]
    first, second = iter(loader), iter(loader)  # the threads are the second one's now
    with pytest.raises(StopIteration):
        next(first)
    assert len(list(second)) == 10
    fresh = []
    loader = DataLoader(Noisy(20), batch_size=2, num_workers=2, worker_init_fn=fresh.append)
    for _ in range(3):
        list(loader)
    assert sorted(fresh) == [0, 0, 0, 1, 1, 1]

    def fails(worker):
        raise OSError("no")
    with pytest.raises(OSError):
        list(DataLoader(Noisy(20), num_workers=2, worker_init_fn=fails))


def test_worker_info():
    class Info(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            info = get_worker_info()
            return (-1, 0) if info is None else (info.id, info.num_workers)

    assert get_worker_info() is None
    assert {tuple(map(int, row)) for batch in DataLoader(Info()) for row in zip(*batch)} == {(-1, 0)}
    found = {tuple(map(int, row)) for batch in DataLoader(Info(), num_workers=2) for row in zip(*batch)}
    assert found <= {(0, 2), (1, 2)} and found


class Stream(IterableDataset):
    def __init__(self, begin, end):
        self.begin, self.end = begin, end

    def __iter__(self):
        for i in range(self.begin, self.end):
            yield i, facula.rand(1)


@pytest.mark.parametrize("workers", WORKERS)
def test_streams_come_once_and_in_order(workers):
    loader = DataLoader(Stream(0, 7), batch_size=3, num_workers=workers)
    assert [batch[0].tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [batch[0].tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(list(DataLoader(Stream(0, 7), batch_size=3, drop_last=True, num_workers=workers))) == 2
    both = ChainDataset([Stream(0, 2), Stream(5, 6)])
    assert [int(x[0]) for x in DataLoader(both, batch_size=None, num_workers=workers)] == [0, 1, 5]
    facula.manual_seed(3)
    numbers = walk(DataLoader(Stream(0, 7), batch_size=3, num_workers=workers))
    facula.manual_seed(3)
    assert numbers == walk(DataLoader(Stream(0, 7), batch_size=3))
    with pytest.raises(ValueError, match="IterableDataset"):
        DataLoader(Stream(0, 3), shuffle=True)


def test_timeout_and_order():
    class Slow(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            time.sleep(0.4)
            return index

    with pytest.raises(RuntimeError, match="timed out"):
        list(DataLoader(Slow(), num_workers=1, timeout=0.05))
    free = DataLoader(Noisy(30), batch_size=3, num_workers=3, in_order=False)
    assert sorted(i for batch in free for i in batch[0].tolist()) == list(range(30))


def test_datasets():
    numbers = list(range(10))
    joined = ConcatDataset([numbers[:3], numbers[3:]])
    assert [joined[i] for i in range(10)] == numbers and joined[-1] == 9 and len(joined) == 10
    with pytest.raises(IndexError):
        joined[10]
    part = Subset(numbers, [7, 1])
    assert list(part[i] for i in range(2)) == [7, 1] and part.__getitems__([1]) == [1]
    assert StackDataset(numbers, numbers)[3] == (3, 3) and StackDataset(a=numbers)[3] == {"a": 3}
    with pytest.raises(facula.ShapeError, match=r"Size mismatch between tensors: their first sizes are \[2, 3\]"):
        TensorDataset(facula.ones(2), facula.ones(3))
    a, b = random_split(numbers, [0.65, 0.35], facula.Generator().manual_seed(1))
    assert len(a) == 7 and len(b) == 3 and sorted([*a.indices, *b.indices]) == numbers
    assert [len(p) for p in random_split(numbers, [4, 6])] == [4, 6]
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(numbers, [4, 5])
    assert len(TensorDataset(facula.ones(2)) + TensorDataset(facula.ones(3))) == 5


def test_samplers():
    data = list(range(10))
    assert list(SequentialSampler(data)) == data
    assert sorted(RandomSampler(data)) == data
    assert len(list(RandomSampler(data, num_samples=25))) == 25
    drawn = list(RandomSampler(data, replacement=True, num_samples=1000))
    assert len(drawn) == 1000 and set(drawn) == set(data)
    assert sorted(SubsetRandomSampler([4, 8])) == [4, 8]
    weighted = list(WeightedRandomSampler([0.0, 1.0, 3.0], 4000, generator=facula.Generator().manual_seed(SEED)))
    assert 0 not in weighted and abs(weighted.count(2) / 4000 - 0.75) < 0.05
    assert list(BatchSampler(SequentialSampler(data), 4, False)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(BatchSampler(SequentialSampler(data), 4, True)) == 2
    parts = [list(DistributedSampler(data, 3, rank)) for rank in range(3)]
    assert set(sum(parts, [])) == set(data) and all(len(p) == 4 for p in parts)
    dropped = [list(DistributedSampler(data, 3, rank, drop_last=True, shuffle=False)) for rank in range(3)]
    assert sorted(sum(dropped, [])) == list(range(9))
    again = DistributedSampler(data, 3, 0)
    again.set_epoch(1)
    assert list(again) != parts[0]


def test_collate():
    Pair = namedtuple("Pair", "a b")
    made = default_collate([Pair(1, {"x": facula.ones(2), "y": "s"}), Pair(2, {"x": facula.zeros(2), "y": "t"})])
    assert made.a.tolist() == [1, 2] and made.b["x"].shape == (2, 2) and made.b["y"] == ["s", "t"]
    assert default_collate([1.5, 2]).dtype == facula.float64
    assert default_collate([True, False]).dtype == facula.bool
    assert default_collate([np.float32(1), np.float32(2)]).dtype == facula.float32
    assert default_collate([np.ones((2, 2), np.int16)] * 3).shape == (3, 2, 2)
    assert default_collate([(1, 2), (3, 4)])[1].tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="collate_fn"):
        default_collate([object()])
    assert default_convert({"a": np.ones(2)})["a"].dtype == facula.float64 and default_convert("x") == "x"


@pytest.mark.parametrize("arguments, error", [
    ({"num_workers": -1}, "non-negative"), ({"prefetch_factor": 2}, "prefetch_factor"), ({"batch_size": 0}, "positive"),
    ({"persistent_workers": True}, "persistent_workers"), ({"sampler": [0], "shuffle": True}, "mutually exclusive"),
    ({"batch_sampler": [[0]], "batch_size": 2}, "mutually exclusive"), ({"multiprocessing_context": "fork"}, "threads"),
    ({"batch_size": None, "drop_last": True}, "drop_last")])
def test_wrong_options(arguments, error):
    with pytest.raises(ValueError, match=error):
        DataLoader([1, 2, 3], **arguments)


def test_workers_share_the_work():
    class Sleepy(Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, index):
            time.sleep(0.02)
            return index

    took = {}
    for workers in (0, 4):
        begin = time.perf_counter()
        list(DataLoader(Sleepy(), batch_size=2, num_workers=workers))
        took[workers] = time.perf_counter() - begin
    assert took[4] < 0.7 * took[0]
