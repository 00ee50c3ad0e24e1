"""run_script_test.py RUN_SH: what run.sh starts, with a program and a compute-sanitizer that only write down how they were
called."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """#!/bin/sh
echo "$TOOL caching=${FACULA_NO_CUDA_MEMORY_CACHING:-kept} $1" >> "$LOG"
exit ${FAIL:-0}
"""
SANITIZER = """#!/bin/sh
TOOL=$2
export TOOL
while [ "${1#-}" != "$1" ]; do
  case $1 in --tool|--error-exitcode|--report-api-errors|--print-limit) shift 2 ;; *) shift ;; esac
done
exec "$@"
"""


def calls(run, folder, *options, status=0, **environment):
    """A line for each start of the program, in order of their text."""
    log = folder / "log"
    log.write_text("")
    clean = {k: v for k, v in os.environ.items() if k != "FACULA_NO_CUDA_MEMORY_CACHING"}
    done = subprocess.run(["bash", run, folder / "program", *options], text=True, capture_output=True, check=False,
                          env={**clean, "PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(log), "TOOL": "none",
                               "FACULA_JOBS": "2", **environment})
    assert done.returncode == status, done.stdout + done.stderr
    return sorted(log.read_text().splitlines())


def main():
    run = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (("program", PROGRAM), ("compute-sanitizer", SANITIZER)):
            (folder / file).write_text(text)
            (folder / file).chmod(0o755)
        records = "--gtest_filter=Records/GpuOp.*"
        others = "--gtest_filter=-Records/GpuOp.*"
        assert calls(run, folder) == sorted([f"none caching=kept {others}"] + 2 * [f"none caching=kept {records}"])
        # Memory of the driver's own for every tensor, and only where it is looked at.
        found = calls(run, folder, "--sanitizer")
        assert found == sorted([f"memcheck caching=1 {others}"] + 2 * [f"memcheck caching=1 {records}"] +
                               [f"racecheck caching=kept {others}:GpuBlas.ThreadsShareIt"] +
                               2 * [f"racecheck caching=kept {records}"]), found
        found = calls(run, folder, "--sanitizer", "--filter", "Conv")
        assert found == ["memcheck caching=1 --gtest_filter=*Conv*", "racecheck caching=kept --gtest_filter=*Conv*"], found
        calls(run, folder, status=3, FAIL="3")
    print("run.sh: as told")


if __name__ == "__main__":
    main()
