"""The Python examples of the page about GPUs. Runs where there is one: a real one, or the software one of tests/simgpu."""
import pytest
from test_docs import ROOT, run_examples

import facula

pytestmark = pytest.mark.skipif(not facula.cuda.is_available(), reason=facula.cuda.why_not_available())


def test_examples_print_what_the_page_says():
    run_examples(ROOT / "docs" / "gpu.md")
