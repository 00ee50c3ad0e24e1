#!/usr/bin/env python3
"""Makes the Python wheel of the tree, with the tools of the Python that runs this.

    tools/wheel.py --out FOLDER [--compiler CXX]

The folder then holds one wheel and, in cmake/, what was built for it, so that a second run builds only what changed. The
settings are those under which `./dev test` compiles: its objects are found in the compiler's cache.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where the wheel goes")
    parser.add_argument("--compiler", default=os.environ.get("CXX") or "c++", help="the C++ compiler")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.whl"):
        old.unlink()
    # Said in full: otherwise it is the one that Python was compiled with, and its objects are others to the cache.
    compiler = shutil.which(options.compiler)
    if not compiler:
        sys.exit(f"wheel: there is no compiler {options.compiler}")
    begin = time.monotonic()
    # The tools are here already: pip need not fetch them into an environment of its own, nor ask a package index.
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--wheel-dir", str(out), "--no-deps", "--no-index",
               "--no-build-isolation", f"--config-settings=build-dir={out / 'cmake'}",
               "--config-settings=cmake.define.FACULA_WERROR=ON",
               f"--config-settings=cmake.define.CMAKE_CXX_COMPILER={compiler}",
               "--config-settings=logging.level=WARNING"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + "\nwheel: failed: " + " ".join(command))
    for wheel in out.glob("*.whl"):
        print(f"wheel: {wheel}, {wheel.stat().st_size} bytes, made in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
