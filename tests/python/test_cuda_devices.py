"""Devices from Python: which there are, what they are doing, work on several."""
import subprocess
import sys

import pytest
from gpu_support import close, needs_gpu, two_devices

import facula

pytestmark = needs_gpu


@two_devices
def test_the_program_that_people_know():
    cuda = facula.device("cuda")
    cuda0 = facula.device("cuda:0")
    cuda2 = facula.device("cuda:1")
    x = facula.tensor([1., 2.], device=cuda0)
    y = facula.tensor([1., 2.]).cuda()
    assert x.device == cuda0 and y.device == cuda0
    with facula.cuda.device(1):
        a = facula.tensor([1., 2.], device=cuda)
        b = facula.tensor([1., 2.]).cuda()
        b2 = facula.tensor([1., 2.]).to(device=cuda)
        assert a.device == cuda2 and b.device == cuda2 and b2.device == cuda2
        c = a + b
        assert c.device == cuda2
        z = x + y
        assert z.device == cuda0
        d = facula.randn(2, device=cuda2)
        e = facula.randn(2).to(cuda2)
        f = facula.randn(2).cuda(cuda2)
        assert d.device == cuda2 and e.device == cuda2 and f.device == cuda2
    assert facula.cuda.current_device() == 0
    assert c.tolist() == [2., 4.] and z.tolist() == [2., 4.]
    with pytest.raises(RuntimeError, match="same device"):
        x + a


def test_devices():
    assert facula.cuda.device_count() >= 1
    facts = facula.cuda.get_device_properties(0)
    assert facts.total_memory > 0 and facts.multi_processor_count > 0 and facts.warp_size in (32, 64)
    assert facula.cuda.get_device_name() == facts.name and facts.name in repr(facts)
    assert facula.cuda.get_device_capability() == (facts.major, facts.minor)
    assert (facula.version.cuda is None) != (facula.version.hip is None)
    assert len(facula.cuda.get_arch_list()) >= 1
    with pytest.raises(RuntimeError, match="cuda:99"):
        facula.zeros(2, device="cuda:99")
    with pytest.raises(ValueError, match="Expected a cuda device"):
        facula.cuda.synchronize("cpu")
    facula.cuda.init()
    assert facula.cuda.is_initialized()


@pytest.mark.parametrize("ask", ["utilization", "memory_usage", "temperature", "power_draw", "clock_rate"])
def test_what_a_device_is_doing(ask):
    # The vendor's library may not be there, or may not know.
    try:
        value = getattr(facula.cuda, ask)()
    except NotImplementedError as error:
        assert str(error).startswith(ask + ":") and len(str(error)) > len(ask) + 20
    else:
        assert isinstance(value, int) and value >= 0


def test_processes():
    try:
        text = facula.cuda.list_gpu_processes()
    except NotImplementedError as error:
        assert str(error).startswith("list_gpu_processes:")
    else:
        assert text.startswith("GPU:0\n")
    free, total = facula.cuda.mem_get_info()
    assert 0 <= facula.cuda.device_memory_used() <= total


def test_a_fork_after_the_start_is_an_error_in_words():
    program = """
import os, facula
facula.ones(2, device='cuda')
read, write = os.pipe()
if os.fork() == 0:
    try:
        facula.ones(2, device='cuda')
        text = 'no error'
    except RuntimeError as e:
        text = str(e)
    os.write(write, text.encode())
    os._exit(0)
os.close(write)
os.wait()
print(os.read(read, 10000).decode())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "fork" in done.stdout and "spawn" in done.stdout, done.stdout + done.stderr


@two_devices
def test_two_devices():
    x = facula.randn(100, device="cuda:0")
    y = x.to("cuda:1")
    assert y.device.index == 1 and facula.equal(x.cpu(), y.cpu())
    parts = facula.cuda.comm.scatter(x, [0, 1])
    assert [p.device.index for p in parts] == [0, 1]
    assert facula.equal(facula.cuda.comm.gather(parts, destination=1).cpu(), x.cpu())
    total = facula.cuda.comm.reduce_add([x, y], 0)
    close(total, x.cpu() * 2)
    with facula.cuda.device_of(y):
        assert facula.cuda.current_device() == 1
    assert facula.cuda.can_device_access_peer(0, 1) in (True, False)


@two_devices
def test_copies_on_several_devices():
    x = facula.arange(6.).reshape(2, 3).cuda()
    copies = facula.cuda.comm.broadcast(x, [0, "cuda:1"])
    assert [c.device.index for c in copies] == [0, 1]
    assert [c.tolist() for c in copies] == 2 * [[[0., 1., 2.], [3., 4., 5.]]]
    into = [facula.zeros(2, 3, device="cuda:1"), facula.ones(2, 3, device="cuda:0")]
    given = facula.cuda.comm.broadcast(x, out=into)
    assert given[0] is into[0] and given[1] is into[1] and len(given) == 2
    assert all(t.tolist() == x.tolist() for t in into)
    for wrong in ({}, {"devices": [0], "out": into}):
        with pytest.raises(ValueError, match="Exactly one of 'devices' and 'out'"):
            facula.cuda.comm.broadcast(x, **wrong)

    y = facula.tensor([7, 8], device="cuda")
    lists = facula.cuda.comm.broadcast_coalesced([x, y], [1, 0])
    assert [[t.device.index for t in tensors] for tensors in lists] == [[1, 1], [0, 0]]
    assert all(a.tolist() == x.tolist() and b.tolist() == [7, 8] and b.dtype is facula.int64 for a, b in lists)

    sums = facula.cuda.comm.reduce_add_coalesced([[x, y], [(x * 10).to("cuda:1"), y.to("cuda:1") + 1]], destination=1)
    assert [t.device.index for t in sums] == [1, 1]
    assert sums[0].tolist() == [[0., 11., 22.], [33., 44., 55.]] and sums[1].tolist() == [15, 17]
    assert x.tolist() == [[0., 1., 2.], [3., 4., 5.]] and y.tolist() == [7, 8], "what was added is as before"
    with pytest.raises(facula.ShapeError, match=r"input 1 has shape \(3,\), input 0 has \(2,\)"):
        facula.cuda.comm.reduce_add([y, facula.ones(3, dtype=facula.int64, device="cuda:1")], 0)
