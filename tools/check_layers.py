#!/usr/bin/env python3
"""Checks who includes whom. Reads every #include of the C++ tree, and fails on those that docs/design.md forbids:
a layer that looks downward, a public header that needs a private or third-party one, a path not written from a root.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A layer may include itself and every layer before it.
LAYERS = ["include/facula", "src/core", "src/autograd", "src/program", "src/cpu", "src/gpu", "src/ops", "src/nn",
          "src/optim", "src/amp", "src/io", "src/data", "src/report"]

# Folders of headers that only forward to the public API, under the names that other programs know.
FORWARDING = ["include/torch", "include/ATen", "include/c10"]

# Third-party headers, by the first part of their path, and the only places that may include them.
SEAMS = {
    "hwy": ["src/cpu/"],
    "oneapi": ["src/cpu/"],
    "dnnl.hpp": ["src/cpu/"],
    "dnnl.h": ["src/cpu/"],
    "omp.h": ["src/cpu/parallel_omp.cpp"],
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
SUFFIXES = {".h", ".hpp", ".inc", ".cpp"}


def layer_of(path):
    """The layer or forwarding folder of a path relative to the root of the tree, or None."""
    for folder in LAYERS + FORWARDING:
        if path.startswith(folder + "/"):
            return folder
    return None


def resolve(included):
    """The file that an include names, relative to the root of the tree, or None if it is not of this tree."""
    for base in ("src", "include"):
        if (ROOT / base / included).is_file():
            return f"{base}/{included}"
    return None


def own_folder(included):
    """The folder that the first part of an include names, if it is one of ours (the file itself may be missing)."""
    first = included.split("/")[0]
    for folder in LAYERS + FORWARDING:
        if "/" in included and folder.split("/")[1] == first:
            return folder
    return None


def complaint(source, included, quoted):
    """Says what is wrong with `source` including `included`, or returns None."""
    here = layer_of(source)
    if here is None:
        return "lies in no layer of docs/design.md"
    for name, allowed in SEAMS.items():
        if included.split("/")[0] == name and not any(source.startswith(place) for place in allowed):
            return f"third-party header; only {' and '.join(allowed)} may include it"

    target = resolve(included)
    if target is None:
        if own_folder(included) is not None:
            return "no such file in this tree"
        if quoted and not any(included.split("/")[0] == name for name in SEAMS):
            return "is not written from the root of include/ or src/"
        return None

    there = layer_of(target)
    if there is None:
        return f"{target} lies in no layer of docs/design.md"
    if there in FORWARDING:
        return None if here in FORWARDING else f"{there} only forwards to the API; include <facula/...> instead"
    if here in FORWARDING:
        return None if there == LAYERS[0] else f"{here} may include {LAYERS[0]} only"
    if LAYERS.index(there) > LAYERS.index(here):
        return f"{here} is below {there} and may not look up to it"
    return None


def example_complaint(included):
    """Examples are users' programs: public headers only."""
    target = resolve(included)
    if target is not None and target.startswith("src/"):
        return "an example includes public headers only"
    return None


def main():
    count = 0
    problems = []
    for folder in ("include", "src", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            source = path.relative_to(ROOT).as_posix()
            text = path.read_text(encoding="utf-8")
            for match in INCLUDE.finditer(text):
                count += 1
                included = match.group(1) or match.group(2)
                if folder == "examples":
                    found = example_complaint(included)
                else:
                    found = complaint(source, included, quoted=match.group(1) is not None)
                if found:
                    line = text.count("\n", 0, match.start()) + 1
                    problems.append(f"{source}:{line}: {included}: {found}")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"check_layers: {count} includes, {len(problems)} wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
