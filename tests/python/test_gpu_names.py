"""The names of facula.cuda. Needs no GPU."""
import os
import re
import subprocess
import sys

import pytest

import facula

# The page "torch.cuda" of PyTorch's documentation, by its headings.
PAGE = {
    "devices": """StreamContext can_device_access_peer current_blas_handle current_device current_stream cudart
        default_stream device device_count device_memory_used device_of get_arch_list get_device_capability
        get_device_name get_device_properties get_gencode_flags get_stream_from_external get_sync_debug_mode init
        ipc_collect is_available is_initialized is_tf32_supported memory_usage set_device set_stream
        set_sync_debug_mode stream synchronize utilization temperature power_draw clock_rate AcceleratorError
        OutOfMemoryError""",
    "random numbers": """get_rng_state get_rng_state_all set_rng_state set_rng_state_all manual_seed manual_seed_all
        seed seed_all initial_seed""",
    "collectives": """comm.broadcast comm.broadcast_coalesced comm.reduce_add comm.reduce_add_coalesced comm.scatter
        comm.gather""",
    "streams and events": "Stream ExternalStream Event",
    "graphs": "is_current_stream_capturing graph_pool_handle CUDAGraph graph make_graphed_callables",
    "memory": """empty_cache get_per_process_memory_fraction list_gpu_processes mem_get_info memory_stats
        memory_stats_as_nested_dict reset_accumulated_memory_stats host_memory_stats host_memory_stats_as_nested_dict
        reset_accumulated_host_memory_stats memory_summary memory_snapshot memory_allocated max_memory_allocated
        reset_max_memory_allocated memory_reserved max_memory_reserved set_per_process_memory_fraction memory_cached
        max_memory_cached reset_max_memory_cached reset_peak_memory_stats reset_peak_host_memory_stats
        caching_allocator_alloc caching_allocator_delete get_allocator_backend CUDAPluggableAllocator
        change_current_allocator MemPool caching_allocator_enable use_mem_pool""",
    "ranges": "nvtx.mark nvtx.range_push nvtx.range_pop nvtx.range",
    "jiterator": "jiterator._create_jit_fn jiterator._create_multi_output_jit_fn",
    "storage": "gds_register_buffer gds_deregister_buffer GdsFile",
}
# They are there and raise. docs/python.md says why; the words are in the error.
REFUSED = {
    "current_blas_handle": ((), "cuBLASLt.*current_stream"),
    "CUDAPluggableAllocator": (("lib.so", "alloc", "free"), "cannot be swapped.*MemPool"),
    "change_current_allocator": ((None,), "cannot be swapped.*MemPool"),
    "gds_register_buffer": ((None,), "GPUDirect Storage.*pin_memory"),
    "gds_deregister_buffer": ((None,), "GPUDirect Storage.*pin_memory"),
    "GdsFile": (("file", os.O_RDONLY), "GPUDirect Storage.*pin_memory"),
}


def find(name):
    place = facula.cuda
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def has(name):
    return callable(find(name))


@pytest.mark.parametrize("heading", PAGE)
def test_the_names_of_the_page_are_there(heading):
    names = set(PAGE[heading].split())
    assert {n for n in names if not has(n)} == set(), "missing"
    assert {n for n in names if "." not in n} - set(facula.cuda.__all__) == set(), "not in __all__"


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_says_what_to_do_instead(name):
    arguments, words = REFUSED[name]
    with pytest.raises(facula.NotSupportedError, match=rf"^{name}\(\): .*{words}"):
        find(name)(*arguments)
    from test_docs import ROOT
    assert f"`{name}`" in (ROOT / "docs" / "python.md").read_text()


def test_every_function_says_what_it_does():
    names = {n for heading in PAGE.values() for n in heading.split()}
    names -= {"AcceleratorError", "OutOfMemoryError"}
    assert {n for n in names if not find(n).__doc__} == set()


def test_nvidias_compiler_can_be_asked_for():
    """The extras name the packages that the library asks for where it finds no compiler, and the pages tell of them."""
    from test_docs import ROOT
    extras = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'^cuda = \["nvidia-cuda-nvrtc>=13"\]$', extras, re.M)
    assert re.search(r'^cuda12 = \["nvidia-cuda-nvrtc-cu12>=12"\]$', extras, re.M)
    asked = (ROOT / "src" / "gpu" / "driver" / "compiler_nvrtc.cpp").read_text()
    assert '`pip install nvidia-cuda-nvrtc", driver_major == 12 ? "-cu12" : ""' in asked
    for page, words in (("README.md", ["NVRTC", "pip install nvidia-cuda-nvrtc", "[cuda]"]),
                        ("docs/gpu.md", ["NVRTC", "nvidia-cuda-nvrtc-cu12", "facula[cuda]", "facula[cuda12]"]),
                        ("docs/python.md", ["NVRTC", "nvidia-cuda-nvrtc-cu12", "facula[cuda]", "facula[cuda12]"])):
        text = (ROOT / page).read_text()
        assert [w for w in words if w not in text] == [], page


def test_without_a_gpu():
    """Questions have answers, seeds change nothing, and the rest says what is missing."""
    program = """
import facula
cuda = facula.cuda
assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
assert 'FACULA_GPU' in cuda.why_not_available()
assert not cuda.is_bf16_supported() and not cuda.is_tf32_supported() and not cuda.is_current_stream_capturing()
assert cuda.get_arch_list() == [] and cuda.default_generators == () and cuda.get_rng_state_all() == []
assert facula.version.cuda is None and facula.version.hip is None
cuda.manual_seed(1)
cuda.manual_seed_all(1)
cuda.empty_cache()
assert cuda.get_sync_debug_mode() == 0
assert cuda.memory_allocated() == 0 and cuda.max_memory_reserved() == 0
with cuda.stream(None), cuda.device(-1), cuda.device_of(facula.ones(1)):
    pass
assert not facula.ones(2).is_pinned()
for call in (cuda.init, cuda.current_device, cuda.synchronize, cuda.Stream, cuda.get_device_properties,
             cuda.mem_get_info, cuda.cudart, cuda.utilization, cuda.list_gpu_processes, cuda.current_stream,
             lambda: facula.ones(2, device='cuda'), lambda: facula.ones(2).cuda(), facula.ones(2).pin_memory,
             lambda: cuda.Kernel('void f()', 'f').compile()):
    try:
        call()
    except facula.DeviceError as error:
        assert 'GPU' in str(error), error
    else:
        raise AssertionError(call)
print('good')
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, FACULA_GPU="none"))
    assert done.stdout == "good\n", done.stdout + done.stderr


def test_the_command_line_tells_about_gpus():
    done = subprocess.run([sys.executable, "-m", "facula", "--gpu"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "no GPU: " in done.stdout if not facula.cuda.is_available() else "cuda:0  " in done.stdout


def test_the_doctor_tells_all():
    done = subprocess.run([sys.executable, "-m", "facula", "doctor"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first, second, third, *rest = done.stdout.splitlines()
    assert first.startswith(f"Python {sys.version.split()[0]}, package /") and first.endswith(facula.__version__)
    assert re.fullmatch(rf"Facula {re.escape(facula.__version__)}, compiled by (g\+\+|clang) [0-9.]+", second)
    assert re.fullmatch(r"processor: (AVX|SSE|NEON|SVE|SCALAR|EMU)\w*(, \w+)*; \d+ threads?; oneDNN [0-9.]+", third)
    gpus = [f"cuda:{i}: {facula.cuda.get_device_name(i)}, " for i in range(facula.cuda.device_count())]
    assert all(line.startswith(start) for line, start in zip(rest, gpus or ["no GPU: "]))
    search = subprocess.run([sys.executable, "-m", "facula", "--gpu"], capture_output=True, text=True, timeout=120)
    assert set(search.stdout.partition("\n\n")[2].split("\n")) - {""} <= set(rest)
    for wrong in (["patient"], ["doctor", "--gpu"], []):
        done = subprocess.run([sys.executable, "-m", "facula", *wrong], capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and "usage" in done.stderr, wrong
