"""What goes wrong on GPUs, and what Python is told. Some of it needs the software GPU of tests/simgpu, which fails on
request."""
import ctypes
import os
import subprocess
import sys
import textwrap
import warnings

import pytest
from gpu_support import needs_gpu

import facula

pytestmark = needs_gpu


def find_control():
    """The function of the software GPU that takes faults; None on a real one."""
    if not facula.cuda.is_available():
        return None
    try:
        function = ctypes.CDLL(facula._native._cuda._driver_path()).simgpu_control
    except AttributeError:
        return None
    function.restype = ctypes.c_char_p
    return function


CONTROL = find_control()
needs_simgpu = pytest.mark.skipif(CONTROL is None, reason="a real GPU does not fail on request")


@pytest.fixture
def fault():
    def give(words):
        assert CONTROL(words.encode()) == b"ok"

    yield give
    CONTROL(b"clear")


def run(program, expected=0, **environment):
    """Runs a program in a process of its own, and gives what it printed."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, **environment))
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout


# How a device can go in mid-run: a kernel dies, a kernel writes where it must not, the driver no longer answers.
@needs_simgpu
@pytest.mark.parametrize("how", ["launch:1=fail", "launch:1=illegal", "memcpy:1=lost", "sync:1=lost"])
def test_a_device_that_is_lost(how):
    said = run(f"""
        import ctypes, gc, facula
        control = ctypes.CDLL(facula._native._cuda._driver_path()).simgpu_control
        two = facula.cuda.device_count() > 1
        x = facula.arange(6., device='cuda:0')
        y = facula.arange(6., device='cuda:1') if two else None
        assert (x * 2).tolist() == [0., 2., 4., 6., 8., 10.]
        control(b'{how}')
        for call in (lambda: (x + 1).tolist(), lambda: (x * 3).sum().item(), lambda: facula.ones(3, device='cuda:0'),
                     lambda: x.cpu(), lambda: facula.cuda.synchronize(0), lambda: x.to('cuda:1') if two else x.cpu()):
            try:
                print('wrong', call())
            except facula.DeviceError as error:
                print(error)
        # The other device and the CPU work on, and letting go of what was there does no harm.
        del x
        gc.collect()
        facula.cuda.empty_cache()
        if two:
            assert (y + 1).sum().item() == 21 and facula.ones(3, device='cuda:1').sum().item() == 3
            graph = facula.cuda.CUDAGraph()
            with facula.cuda.device(1), facula.cuda.graph(graph):
                z = y * 5
            graph.replay()
            assert z.tolist() == [0., 5., 10., 15., 20., 25.]
        print((facula.ones(3) + 1).tolist())
    """)
    *errors, end = said.splitlines()
    assert end == "[2.0, 2.0, 2.0]" and len(errors) == 6, said
    first = errors[0]
    assert first.startswith("copy_: ") and "(on cuda:0)" in first and "start the process again" in first, said
    for error in errors[1:]:
        assert "cuda:0 can no longer be used in this process, because of an earlier error" in error, said
    assert errors[1].startswith("mul: ") and errors[4].startswith("synchronize: ")


@needs_simgpu
def test_a_launch_that_is_refused_says_which(fault):
    x = facula.arange(6., device="cuda")
    assert (x + 1).sum().item() == 21
    fault("launch:1+=refuse")
    with pytest.raises(facula.DeviceError, match=r"^add: .*grid \d+ x 1 x 1, block \d+ x 1 x 1"):
        x + 1
    CONTROL(b"clear")
    assert (x + 1).sum().item() == 21


@needs_simgpu
def test_memory_that_is_refused_once_is_asked_for_again(fault):
    facula.cuda.empty_cache()
    retries = facula.cuda.memory_stats().get("num_alloc_retries", 0)
    for kind in ("alloc", "map"):
        fault(f"{kind}:1=oom")
    x = facula.full((5 << 20,), 3., device="cuda")
    assert facula.cuda.memory_stats()["num_alloc_retries"] > retries
    assert x.sum().item() == 3 * (5 << 20)
    del x
    facula.cuda.empty_cache()
    for kind in ("alloc", "map"):
        fault(f"{kind}:1+=oom")
    with pytest.raises(facula.OutOfMemoryError, match="^empty: out of memory on cuda:0. 64.00 MiB were asked for"):
        facula.empty(16 << 20, device="cuda")
    CONTROL(b"clear")
    assert facula.ones(16 << 20, device="cuda").sum().item() == 16 << 20


def test_out_of_memory_names_the_five_largest_holders_and_their_lines():
    facula.cuda.memory._record_memory_history()
    held = []
    try:
        held.append(facula.empty(30 << 20, dtype=facula.uint8, device="cuda"))  # third
        held.append(facula.empty(10 << 20, dtype=facula.uint8, device="cuda"))  # fifth
        held.append(facula.empty(50 << 20, dtype=facula.uint8, device="cuda"))  # first
        held.append(facula.empty(8 << 20, dtype=facula.uint8, device="cuda"))  # sixth
        held.append(facula.empty(40 << 20, dtype=facula.uint8, device="cuda"))  # second
        held.append(facula.empty(20 << 20, dtype=facula.uint8, device="cuda"))  # fourth
        _, total = facula.cuda.mem_get_info()
        with pytest.raises(facula.OutOfMemoryError) as caught:
            facula.empty(total, dtype=facula.uint8, device="cuda")
    finally:
        facula.cuda.memory._record_memory_history(enabled=None)
    text = str(caught.value)
    for word in ("were asked for", "are free", "has reserved", "are reserved but unused", "(fragmentation)",
                 "What helps: "):
        assert word in text, text
    lines = {line.rsplit("# ")[1]: number + 1 for number, line in enumerate(open(__file__).read().splitlines())
             if "held.append(" in line and "# " in line}
    holders = text.split("Largest holders:\n")[1].split("What helps")[0]
    for place, megabytes, which in ((1, 50, "first"), (2, 40, "second"), (3, 30, "third"), (4, 20, "fourth"),
                                    (5, 10, "fifth")):
        assert f"  {place}. {megabytes}.00 MiB in 1 block of empty, called at " in holders, text
        assert f"{os.path.basename(__file__)}:{lines[which]}" in holders, text
    assert "  6. " not in holders and f":{lines['sixth']}" not in holders, text
    del held
    assert facula.ones(3, device="cuda").sum().item() == 3


WORK = """
    import warnings, facula
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        x = facula.arange(1000., device='cuda')
        assert (x * 2 + 1).sum().item() == 1000 * 999 + 1000
        assert facula.equal(facula.tanh(x).cpu() > 0.5, facula.tanh(x.cpu()) > 0.5)
    for each in caught:
        print(each.category.__name__, each.message)
"""


def folder_in_the_way(path):
    path.write_text("a file")
    return "is a link or no folder"


def folder_of_all(path):
    path.mkdir()
    path.chmod(0o777)
    return "may be written by others"


def folder_of_another(path):
    path.mkdir(mode=0o700)
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(path, 12345, 12345)
    return "belongs to another user (number 12345"


@pytest.mark.parametrize("make", [folder_in_the_way, folder_of_all, folder_of_another])
def test_a_cache_folder_that_cannot_be_used_is_a_warning_of_python(make, tmp_path):
    cause = make(tmp_path / "cache")
    said = run(WORK, FACULA_CACHE_DIR=str(tmp_path / "cache")).splitlines()
    assert len(said) == 1, said
    assert said[0].startswith("UserWarning compiled GPU kernels are not kept on disk: ")
    assert cause in said[0] and "FACULA_CACHE_DIR" in said[0]


def test_a_cache_that_works_says_nothing(tmp_path):
    for _ in range(2):
        assert run(WORK, FACULA_CACHE_DIR=str(tmp_path / "cache")) == ""
    assert any((tmp_path / "cache" / "kernels").iterdir())
    # Damaged entries are made anew, and nobody need hear of it.
    entries = list((tmp_path / "cache" / "kernels").iterdir())
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-10] + b"0123456789")
    assert run(WORK, FACULA_CACHE_DIR=str(tmp_path / "cache")) == ""
    for entry in entries:
        assert not entry.read_bytes().endswith(b"0123456789"), entry


def test_two_programs_fill_one_cache(tmp_path):
    programs = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(WORK)], text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT,
                                 env=dict(os.environ, FACULA_CACHE_DIR=str(tmp_path / "cache"))) for _ in range(2)]
    for each in programs:
        said, _ = each.communicate(timeout=300)
        assert each.returncode == 0 and said == "", said
    names = [entry.name for entry in (tmp_path / "cache" / "kernels").iterdir()]
    assert names and all(name.endswith(".bin") for name in names), names


def test_warnings_can_be_errors_and_all_goes_on(tmp_path):
    (tmp_path / "cache").write_text("a file")
    said = run("""
        import warnings, facula
        warnings.simplefilter('error')
        try:
            facula.ones(3, device='cuda')
            print('no warning')
        except UserWarning as warning:
            print('raised')
        print(facula.ones(3, device='cuda').sum().item())
    """, FACULA_CACHE_DIR=str(tmp_path / "cache"))
    assert said == "raised\n3.0\n"


def test_waits_can_be_warned_of():
    x = facula.ones(2, device="cuda")
    facula.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="^item: called a synchronizing operation"):
            x.sum().item()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x + 1
    finally:
        facula.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("how", ["returns", "_exit"])
def test_a_forked_process_can_use_the_cpu_and_end(how):
    said = run(f"""
        import os, sys, facula
        x = facula.ones(1000, device='cuda')
        stream, event = facula.cuda.Stream(), facula.cuda.Event()
        event.record(stream)
        graph = facula.cuda.CUDAGraph()
        with facula.cuda.graph(graph):
            y = x * 2
        child = os.fork()
        if child == 0:
            try:
                x + 1
                os._exit(3)
            except facula.DeviceError as error:
                assert 'spawn' in str(error)
            assert (facula.ones(4) * 2).tolist() == [2., 2., 2., 2.]
            del x, y, graph, stream, event
            sys.stdout.flush()
            os._exit(0) if '{how}' == '_exit' else sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        graph.replay()
        print(y.sum().item(), (x + 1).sum().item())
    """)
    assert said == "2000.0 2000.0\n"
