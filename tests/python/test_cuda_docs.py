"""The Python examples of the page about GPUs. Runs where there is one: a real one, or the software one of tests/simgpu."""
from gpu_support import needs_gpu
from test_docs import ROOT, run_examples

pytestmark = needs_gpu


def test_examples_print_what_the_page_says():
    run_examples(ROOT / "docs" / "gpu.md")
