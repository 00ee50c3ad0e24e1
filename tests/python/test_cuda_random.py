"""Random numbers on GPUs from Python."""
import pytest
from gpu_support import needs_gpu

import facula

pytestmark = needs_gpu


def test_the_same_seed_gives_the_same_numbers():
    for make in (lambda d: facula.rand(1001, device=d), lambda d: facula.randn(1001, device=d),
                 lambda d: facula.randint(0, 1000, (501,), device=d), lambda d: facula.randperm(100, device=d),
                 lambda d: facula.empty(77, dtype=facula.float64, device=d).exponential_(1.5)):
        facula.manual_seed(12)
        here = make("cpu")
        facula.manual_seed(12)
        there = make("cuda")
        assert facula.equal(here, there.cpu())


def test_generators():
    g = facula.Generator(device="cuda")
    g.manual_seed(5)
    a = facula.rand(10, device="cuda", generator=g)
    g.manual_seed(5)
    assert facula.equal(a, facula.rand(10, device="cuda", generator=g))
    with pytest.raises(RuntimeError, match="generator"):
        facula.rand(3, generator=g)
    last = facula.cuda.device_count() - 1
    h = facula.cuda.Generator(last).manual_seed(5)
    assert h.device == facula.device("cuda", last) and facula.cuda.Generator().device == facula.device("cuda", 0)
    assert facula.equal(a.cpu(), facula.rand(10, device=h.device, generator=h).cpu())
    state = facula.cuda.get_rng_state()
    first = facula.rand(4, device="cuda")
    facula.cuda.set_rng_state(state)
    assert facula.equal(first, facula.rand(4, device="cuda"))
    facula.cuda.manual_seed(9)
    assert facula.cuda.initial_seed() == 9
    assert len(facula.cuda.default_generators) == facula.cuda.device_count()
    before = facula.cuda.get_rng_state_all()
    with facula.random.fork_rng():
        facula.rand(4, device="cuda")
        assert not facula.equal(facula.cuda.get_rng_state(0), before[0])
    assert all(facula.equal(a, b) for a, b in zip(facula.cuda.get_rng_state_all(), before))
    facula.rand(4, device="cuda")
    facula.cuda.set_rng_state_all(before)
    assert facula.equal(facula.cuda.get_rng_state(), before[0])


def test_seeds_from_the_system():
    cuda = facula.cuda
    before = [g.initial_seed() for g in cuda.default_generators]
    try:
        first, second = cuda.seed(), cuda.seed()
        assert first != second and cuda.initial_seed() == second
        drawn = facula.rand(8, device="cuda")
        cuda.manual_seed(second)
        assert facula.equal(facula.rand(8, device="cuda"), drawn)
        assert [g.initial_seed() for g in cuda.default_generators][1:] == before[1:], "only the current device"
        assert cuda.seed_all() is None
        seeds = {g.initial_seed() for g in cuda.default_generators}
        assert len(seeds) == 1 and seeds != {second}
        drawn = [facula.rand(8, device=g.device).tolist() for g in cuda.default_generators]
        assert all(d == drawn[0] for d in drawn)
    finally:
        for generator, seed in zip(cuda.default_generators, before):
            generator.manual_seed(seed)
