"""Times the compilation of hello.cpp with Facula's header and with libtorch's, in turn, and holds it to the bar: at
most two seconds and a tenth of the peer's time."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MAX_SECONDS = 2.0
MAX_SHARE = 0.10


def compile_once(command):
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(command)}\n{done.stderr}")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours-include", required=True)
    parser.add_argument("--peer-include", required=True)
    parser.add_argument("--peer-name", default="libtorch")
    parser.add_argument("--peer-abi")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()

    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    environment_note = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    source = str(pathlib.Path(__file__).parent / "hello.cpp")
    peer_include = pathlib.Path(arguments.peer_include)
    peer_flags = ["-DBENCH_LIBTORCH", "-isystem", str(peer_include / "torch/csrc/api/include")]
    if peer_include != pathlib.Path("/usr/include"):  # naming that folder would break #include_next <stdlib.h>
        peer_flags += ["-isystem", str(peer_include)]
    if arguments.peer_abi:
        peer_flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={arguments.peer_abi}")

    with tempfile.TemporaryDirectory() as folder:
        target = ["-O2", "-c", source, "-o", os.path.join(folder, "hello.o")]
        # Newer peers ask for C++20; take the older and cheaper standard where it is enough.
        peer_standard = "-std=c++17"
        probe = [compiler, peer_standard, *peer_flags, "-fsyntax-only", source]
        if subprocess.run(probe, capture_output=True).returncode != 0:
            peer_standard = "-std=c++20"
        commands = {
            "ours": [compiler, "-std=c++20", "-isystem", arguments.ours_include, *target],
            "peer": [compiler, peer_standard, *peer_flags, *target],
        }
        times = {side: [] for side in commands}
        for side, command in commands.items():  # fills the file cache
            compile_once(command)
        for turn in range(arguments.repeat):
            for side in ("ours", "peer") if turn % 2 == 0 else ("peer", "ours"):
                times[side].append(compile_once(commands[side]))

    ours, peer = statistics.median(times["ours"]), statistics.median(times["peer"])
    met = ours <= MAX_SECONDS and ours <= MAX_SHARE * peer
    print(f"compiler: {environment_note}; peer: {arguments.peer_name}, {peer_standard}")
    print(f"hello.cpp with facula/facula.h: {ours:.2f} s   with torch/torch.h: {peer:.2f} s   "
          f"{100 * ours / peer:.1f} % of the peer's time")
    print(f"bar: at most {MAX_SECONDS:.0f} s and {100 * MAX_SHARE:.0f} %: {'met' if met else 'MISSED'}")
    if arguments.json:
        report = {"compiler": environment_note, "peer": arguments.peer_name, "ours_s": ours, "peer_s": peer,
                  "all_ours_s": times["ours"], "all_peer_s": times["peer"], "met": met}
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
