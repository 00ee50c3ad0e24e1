"""Looks into the wheel in a folder, installs it into an empty environment and runs tests/python/smoke.py there.

    try_wheel.py --wheels FOLDER --work FOLDER [--compiler CXX] [--generator NAME]

Run by the Python for which the wheel was made. NumPy comes from the wheels that lie next to the tools of ./dev, or from
pip's package index where there are none.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MOST_BYTES = 30_000_000


def fail(text):
    sys.exit(f"try_wheel: {text}")


def look_into(wheel):
    """The wheel holds what docs/packaging.md says, each library once, and nothing of the machine that made it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        libraries = [n for n in names if re.search(r"\.so(\.[0-9]+)*$", n)]
        for pattern in (r"facula/__init__\.py", r"facula/_native\.[^/]*so", r"facula/py\.typed", r"facula/_ops/__init__\.pyi",
                        r"facula/lib/libfacula\.so", r"facula/lib/libdnnl\.so\.[0-9.]+", r"facula/lib/libhwy\.so\.[0-9]+",
                        r"facula/include/facula/facula\.h", r"facula/include/torch/torch\.h",
                        r"facula/lib/cmake/Facula/FaculaConfig\.cmake", r"facula/licenses/libdnnl.*\.txt"):
            found = [n for n in names if re.fullmatch(pattern, n)]
            if len(found) != 1 and not (found and "licenses" in pattern):
                fail(f"{wheel.name} holds {found or 'nothing'} for {pattern}")
        for name in names:
            if "__pycache__" in name or name.startswith(("tests/", "src/")):
                fail(f"{wheel.name} holds {name}, which nobody needs there")
        for name in [n for n in names if n.endswith((".cmake", ".py", ".pyi"))]:
            if str(ROOT).encode() in archive.read(name):
                fail(f"{name} in {wheel.name} names {ROOT}, which is not there on other machines")
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        for extra, package in (("numpy", "numpy"), ("cuda", "nvidia-cuda-nvrtc"), ("cuda12", "nvidia-cuda-nvrtc-cu12")):
            if not re.search(rf"^Requires-Dist: {package} ?\(?>=[0-9.]+\)? ?; extra == ['\"]{extra}['\"]$", metadata, re.M):
                fail(f"{wheel.name} does not ask for {package} with the extra {extra}:\n{metadata.split(chr(10) * 2)[0]}")
        for name in libraries:
            print(f"try_wheel: {name}: {archive.getinfo(name).file_size} bytes")
    size = wheel.stat().st_size
    print(f"try_wheel: {wheel.name}: {size} bytes of at most {MOST_BYTES}, {len(names)} files")
    if size > MOST_BYTES:
        fail("the wheel is too large")


def run(command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        fail(f"failed: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--generator", default="Ninja")
    options = parser.parse_args()
    options.work = options.work.resolve()
    wheels = list(options.wheels.glob("*.whl"))
    if len(wheels) != 1:
        fail(f"expected one wheel in {options.wheels}, found {len(wheels)}")
    look_into(wheels[0])

    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    environment = options.work / "venv"
    venv.create(environment, with_pip=True, symlinks=True)
    python = environment / "bin" / "python"
    # The package in the build folder, or libraries of the user's, must not stand in for what the wheel lacks.
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")}
    run([python, "-m", "pip", "install", "--no-index", "--no-deps", wheels[0]], env=clean)
    stored = Path(sys.prefix) / "wheels"
    source = ["--no-index", "--find-links", stored] if stored.is_dir() else []
    run([python, "-m", "pip", "install", *source, "-r", ROOT / "python" / "requirements-wheel-test.txt"], env=clean)
    # Run from the work folder, so that nothing of the tree is found by chance.
    smoke = shutil.copy(HERE / "smoke.py", options.work)
    print(run([python, smoke, "--consumer", HERE.parent / "install", "--compiler", options.compiler,
               "--generator", options.generator], cwd=options.work, env=clean), end="")


if __name__ == "__main__":
    main()
