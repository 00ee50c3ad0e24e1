#!/usr/bin/env python3
"""What a call costs in Python: small tensors, ours and PyTorch's in one process, in turn. Also the cost of the import and,
with --cpp, what Python adds to the same call in C++ (bench/python/calls.cpp prints those times).

    ops.py [--markdown FILE] [--json FILE] [--cpp PROGRAM]
"""
import argparse
import json
import platform
import statistics
import subprocess
import sys
import time

import numpy as np

import facula

try:
    import torch
except ImportError:
    sys.exit("bench: there is no torch to compare with; install python3-torch or the wheel")

ROUNDS = 41
SLICE = 0.01  # seconds of one measurement
BAR = 2.0     # how much faster than the peer a call must be


def cases(lib):
    """The same calls for either library."""
    a = lib.tensor([1.0, 2, 3, 4, 5, 6, 7, 8])
    b = lib.tensor([8.0, 7, 6, 5, 4, 3, 2, 1])
    thousand = lib.arange(1000, dtype=lib.float32)
    matrix = lib.ones(8, 8)
    leaf = lib.ones(8, requires_grad=True)
    array = np.arange(8, dtype=np.float32)

    def backward():
        (leaf * a).sum().backward()

    return {
        "a + b": lambda: a + b,
        "a * 2.0": lambda: a * 2.0,
        "a.sum()": lambda: a.sum(),
        "a[0]": lambda: a[0],
        "a[1:5]": lambda: a[1:5],
        "matrix[2, 3]": lambda: matrix[2, 3],
        "a.view(2, 4)": lambda: a.view(2, 4),
        "zeros(8)": lambda: lib.zeros(8),
        "tolist of 1000": lambda: thousand.tolist(),
        "exp": lambda: a.exp(),
        "matrix @ matrix": lambda: matrix @ matrix,
        "a.shape": lambda: a.shape,
        "item": lambda: a[0].item(),
        "tensor of 8": lambda: lib.tensor([1.0, 2, 3, 4, 5, 6, 7, 8]),
        "from_numpy": lambda: lib.from_numpy(array),
        "numpy": lambda: a.numpy(),
        "(a * b).sum().backward()": backward,
    }


def once(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def measure(ours, theirs):
    """Medians in nanoseconds, measured in turn so that what disturbs one disturbs the other."""
    count = max(1, int(SLICE / max(once(ours, 20), once(theirs, 20), 1e-8)))
    mine, peer = [], []
    for round in range(ROUNDS):
        order = [(ours, mine), (theirs, peer)]
        for call, times in order if round % 2 else reversed(order):
            times.append(once(call, count))
    return statistics.median(mine) * 1e9, statistics.median(peer) * 1e9


def import_seconds(name):
    """The import alone, in a fresh process, the best of five."""
    code = f"import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"
    return min(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
               for _ in range(5))


def cpp_times(program):
    """Times of the same calls in C++: lines of a name, a tab and nanoseconds."""
    text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: float(value) for name, value in (line.split("\t") for line in text.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown")
    parser.add_argument("--json")
    parser.add_argument("--cpp")
    options = parser.parse_args()
    facula.set_num_threads(1)
    torch.set_num_threads(1)
    in_cpp = cpp_times(options.cpp) if options.cpp else {}
    mine, peer = cases(facula), cases(torch)
    lines = ["| call | facula ns | torch ns | ratio | in C++ ns | Python adds ns |", "|---|---|---|---|---|---|"]
    results = {}
    for name in mine:
        ours, theirs = measure(mine[name], peer[name])
        results[name] = {"facula_ns": ours, "torch_ns": theirs, "ratio": theirs / ours, "cpp_ns": in_cpp.get(name)}
        plain = in_cpp.get(name)
        extra = (f"{plain:.0f}", f"{ours - plain:.0f}") if plain is not None else ("", "")
        lines.append(f"| `{name}` | {ours:.0f} | {theirs:.0f} | {theirs / ours:.2f} | {extra[0]} | {extra[1]} |")
    imports = {name: import_seconds(name) for name in ("facula", "torch")}
    lines += ["", f"Import: facula {imports['facula'] * 1000:.0f} ms, torch {imports['torch'] * 1000:.0f} ms. "
              f"Python {platform.python_version()}, torch {torch.__version__}, one thread."]
    print("\n".join(lines))
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write("\n".join(lines) + "\n")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"calls": results, "import_seconds": imports, "torch": torch.__version__,
                       "python": platform.python_version()}, file, indent=1)
    missed = [name for name, r in results.items() if r["ratio"] < BAR]
    if missed:
        print("below the bar of", BAR, "times:", ", ".join(missed))


if __name__ == "__main__":
    main()
