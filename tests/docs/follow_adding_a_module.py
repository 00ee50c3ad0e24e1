#!/usr/bin/env python3
"""Follows docs/adding-a-module.md in a copy of the tree: applies its blocks in order, generates, compiles the new modules and their
tests against a library that is already built, and runs them.

    follow_adding_a_module.py --work FOLDER --library FOLDER [--compiler CXX] [--package FOLDER --python PYTHON]

--library is the folder of the built libfacula; --package that of a built Python package, whose native module runs the Python tests.
Blocks are applied as in follow_adding_an_op.py.
"""

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

import follow_adding_an_op as steps
from pages import blocks

PAGE = "docs/adding-a-module.md"
# What of the tree the new sources, the generators and the tests need.
FOLDERS = ("include/", "src/nn/", "src/core/", "modules/", "ops/", "tools/", "python/", "tests/cpp/", "docs/", "tests/records/")


def say(text):
    print(f"adding-a-module: {text}", flush=True)


def follow(copy):
    """Applies the page. Returns the files that it wrote or changed and the names that it tests."""
    changed, filters = [], []
    book = "\n".join(p.read_text() for p in (copy / "modules").glob("*.modules"))
    for block in blocks(steps.ROOT / PAGE):
        place = f"{PAGE}:{block.line}"
        if block.language == "sh":
            for command in block.text.splitlines():
                tested = re.fullmatch(r"\./dev test --filter (\S+)", command)
                if tested:
                    filters.append(tested[1])
                elif command != "./dev gen":
                    sys.exit(f"{place}: this test cannot carry out {command!r}")
            continue
        for name in re.findall(r"^module (\S+)", block.text, re.M):
            if f"\nmodule {name}\n" in book:
                sys.exit(f"{place}: {name} is in the book by now; let the page add another module")
        changed.append(steps.apply(block, copy, place))
    return changed, filters


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--package", type=Path)
    parser.add_argument("--python", default="python3")
    options = parser.parse_args()

    copy = options.work / "tree"
    shutil.rmtree(copy, ignore_errors=True)
    for file in steps.tree():
        if file.startswith(FOLDERS) and (steps.ROOT / file).is_file():
            steps.write(copy / file, (steps.ROOT / file).read_bytes())
    changed, filters = follow(copy)
    steps.run([sys.executable, "tools/modgen.py"], cwd=copy)
    steps.run([sys.executable, "tools/modgen.py", "--check"], cwd=copy)
    say(f"the page is applied; testing {', '.join(filters)}")

    # The library has the other modules; what the page changed is compiled here, and described.cpp, whose symbols it hides.
    families = [p.stem for p in changed if p.suffix == ".modules"]
    sources = [copy / f"src/nn/generated/{f}.cpp" for f in families] + [copy / "src/nn/described.cpp"]
    sources += [p for p in changed if p.suffix == ".cpp"]
    program = options.work / "tests_of_the_page"
    steps.run([options.compiler, "-std=c++20", "-O0", "-I", copy / "include", "-I", copy / "src", "-I", copy / "tests", *sources, "-o", program,
               "-L", options.library, f"-Wl,-rpath,{options.library.resolve()}", "-lfacula", "-lgmock_main", "-lgmock", "-lgtest",
               "-lpthread"])
    for name in filters:
        said = steps.run([program, f"--gtest_filter={name}*"])
        if not re.search(r"\[  PASSED  \] [1-9]", said):
            print(said)
            sys.exit(f"adding-a-module: no test of {name} ran")
        say(f"{name} passes in C++")

    native = sorted(options.package.glob("_native*.so")) if options.package else []
    if native:
        package = copy / "python/facula"
        shutil.copy(native[0], package)
        tests = [p for p in changed if p.name.startswith("test_")]
        steps.run([options.python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
                  env={**os.environ, "PYTHONPATH": str(package.parent), "FACULA_GPU": "none"})
        say("both pass in Python")


if __name__ == "__main__":
    main()
