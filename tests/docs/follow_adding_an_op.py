#!/usr/bin/env python3
"""Follows docs/adding-an-op.md in a copy of the tree: applies its blocks in order, generates, builds what the record tests
need and runs the records of the new ops.

    follow_adding_an_op.py --work FOLDER [--python PYTHON] [--compiler CXX] [--jobs N]

The words before a block say what becomes of it: "append to `FILE`", "write `FILE`", "in `FILE`, below `TEXT`, insert" (or
above). Blocks of `sh` are ./dev commands, of which `gen` and `test --filter NAME` are carried out here by cheaper means:
one build for all ops, with little optimisation and one instruction set.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pages import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/adding-an-op.md"
# Of the C++ tests, the runners of the records are built. CMake wants a source for the program of the other tests, too.
KEPT_TESTS = ("tests/cpp/records_test.cpp", "tests/cpp/gradients_test.cpp", "tests/cpp/parallel_test.cpp")
FLAGS = "-O1 -g0 -DNDEBUG -DHWY_COMPILE_ONLY_STATIC"


def say(text):
    print(f"adding-an-op: {text}", flush=True)


def run(command, **options):
    """Runs a command; prints what it said only when it fails."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(f"adding-an-op: failed: {' '.join(map(str, command))}")
    return done.stdout


def wanted(path):
    """Whether the copy needs a file."""
    if path.startswith(("bench/", "examples/", "tests/errors/", "build/")):
        return False
    return path in KEPT_TESTS or not (path.startswith("tests/cpp/") and path.endswith("_test.cpp"))


def tree():
    """The files of the tree: what git knows and what is new; everything outside build/ where there is no git."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if listed.returncode == 0 and listed.stdout:
        return listed.stdout.splitlines()
    return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and ".git" not in p.parts]


def copy_tree(copy):
    """Brings the copy up to date. A file that did not change keeps its time, so that a second run rebuilds little."""
    files = {f for f in tree() if wanted(f) and (ROOT / f).is_file()}
    for old in [p for p in copy.rglob("*") if p.is_file()]:
        if str(old.relative_to(copy)) not in files:
            old.unlink()
    for file in files:
        write(copy / file, (ROOT / file).read_bytes(), (ROOT / file).stat().st_mode)


def write(path, data, mode=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)
    if mode is not None:
        path.chmod(mode)


def insert(text, anchor, addition, above, place):
    """`text` with `addition` above or below its one line that holds `anchor`."""
    lines = text.splitlines(keepends=True)
    hits = [n for n, line in enumerate(lines) if anchor in line]
    if len(hits) != 1:
        sys.exit(f"{place}: {len(hits)} lines hold {anchor!r}; one is needed")
    at = hits[0] + (0 if above else 1)
    return "".join(lines[:at]) + addition + "".join(lines[at:])


def apply(block, copy, place):
    """Carries out one block that is text for a file. Returns the file."""
    words = block.sentence()
    appended = re.search(r"[Aa]ppend to `([^`]+)`:$", words)
    written = re.search(r"[Ww]rite `([^`]+)`:$", words)
    inserted = re.search(r"[Ii]n `([^`]+)`, (above|below) `([^`]+)`, insert:$", words)
    if appended:
        path = copy / appended[1]
        text = path.read_text().rstrip("\n") + "\n\n" + block.text
    elif written:
        path = copy / written[1]
        if path.exists():
            sys.exit(f"{place}: {written[1]} exists already")
        text = block.text
    elif inserted:
        path = copy / inserted[1]
        text = insert(path.read_text(), inserted[3], block.text, inserted[2] == "above", place)
    else:
        sys.exit(f"{place}: no file is named before this block: {words!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def follow(copy):
    """Applies the page to the copy. Returns the names that `./dev test --filter` is told."""
    filters, book = [], "\n".join(p.read_text() for p in (copy / "ops").glob("*.ops"))
    for block in blocks(ROOT / PAGE):
        place = f"{PAGE}:{block.line}"
        if block.language != "sh":
            for name in re.findall(r"^op (\S+)", block.text, re.M):
                if f"\nop {name}\n" in book:
                    sys.exit(f"{place}: {name} is in the book by now; let the page add another op")
            apply(block, copy, place)
            continue
        for command in block.text.splitlines():
            tested = re.fullmatch(r"\./dev test --filter (\S+)", command)
            if tested:
                filters.append(tested[1])
            elif command != "./dev gen":
                sys.exit(f"{place}: this test cannot carry out {command!r}")
    if not filters:
        sys.exit(f"{PAGE}: it tests no op")
    return filters


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--python", default="python3", help="one with NumPy and SciPy")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    begin = time.monotonic()

    fresh, copy, build = options.work / "fresh", options.work / "tree", options.work / "build"
    if fresh.exists():
        shutil.rmtree(fresh)
    copy_tree(fresh)
    filters = follow(fresh)
    run([sys.executable, "tools/opgen.py"], cwd=fresh)
    run([sys.executable, "tools/opgen.py", "--check"], cwd=fresh)
    run([sys.executable, "tools/check_layers.py"], cwd=fresh)
    # The build sees one folder in which only what changed since the last run is new.
    files = {p.relative_to(fresh) for p in fresh.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    for old in [p for p in copy.rglob("*") if p.is_file()]:
        if old.relative_to(copy) not in files:
            old.unlink()
    for file in files:
        write(copy / file, (fresh / file).read_bytes())
    shutil.rmtree(fresh)
    say(f"the page is applied; testing {', '.join(filters)}")

    # Paths relative to the copy make for the same cache entries wherever it lies.
    environment = dict(os.environ, CCACHE_BASEDIR=str(options.work.resolve()), CCACHE_NOHASHDIR="1")
    run(["cmake", "-S", copy, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={options.compiler}", "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_CXX_FLAGS_RELEASE={FLAGS}", "-DFACULA_EXAMPLES=OFF", "-DFACULA_INSTALL=OFF", "-DFACULA_WERROR=ON",
         f"-DFACULA_NUMERIC_PYTHON={options.python}"], env=environment)
    run(["cmake", "--build", build, "--target", "facula_tests", "-j", options.jobs], env=environment)
    say(f"built after {time.monotonic() - begin:.0f} s")

    cases = options.work / "cases"
    seed = os.environ.get("FACULA_SEED", "1")
    run([options.python, copy / "tests/truth/make_cases.py", "--out", cases, "--seed", seed, "--only", *filters])
    for name in filters:
        tests = f"Records/Op.HoldsItsRecord/{name}:Gradients/OpGradient.IsTheDerivative/{name}"
        said = run([build / "bin/facula_tests", f"--gtest_filter={tests}"],
                   env=dict(os.environ, FACULA_CASES=str(cases), FACULA_SEED=seed))
        if "[  PASSED  ] 2 tests" not in said:
            print(said)
            sys.exit(f"adding-an-op: {tests} did not run")
        say(f"{name} holds its record, and its gradients are its derivatives")
    say(f"done after {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
