"""Runs every Python example of the pages: the blocks of a page share their names, and the text block after one is its output."""
import contextlib
import io
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "docs"))
from pages import blocks  # noqa: E402

# adding-an-op.md and adding-a-module.md are followed step by step in copies of the tree (tests/docs/follow_adding_*.py). The examples
# of gpu.md need a GPU, or the one in software (test_cuda_docs.py).
ELSEWHERE = ("adding-an-op.md", "adding-a-module.md", "gpu.md")
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
         if page.name not in ELSEWHERE and any(block.language == "python" for block in blocks(page))]


def test_there_are_examples():
    assert ROOT / "docs" / "python.md" in PAGES
    assert ROOT / "README.md" in PAGES


def run_examples(page):
    import facula

    threads, names = facula.get_num_threads(), {"__name__": "example"}
    found = blocks(page)
    try:
        for block, after in zip(found, [*found[1:], None]):
            if block.language != "python":
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, f"{page.name}:{block.line}", "exec"), names)
            says = after.text if after is not None and after.language == "text" else ""
            assert printed.getvalue() == says, f"{page.name}:{block.line}"
    finally:
        facula.set_num_threads(threads)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_print_what_the_page_says(page):
    run_examples(page)
