#!/usr/bin/env python3
"""Steps of training, ours and PyTorch's in one run: each library in a process of its own, measured in turn.

    run.py [--device cpu|cuda] [--threads 1,all] [--filter REGEX] [--rounds N] [--json FILE] [--markdown FILE]
           [--peer PYTHON] [--ours PYTHON]

Both start from the same weights and see the same data: the losses after 20 steps are compared as well.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FIRST_STEPS = 20


class Worker:
    def __init__(self, python, library):
        self.process = subprocess.Popen([python, str(HERE / "steps.py"), library], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.version = self.answer()["version"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: the process of a library ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, **command):
        print(json.dumps(command), file=self.process.stdin, flush=True)
        return self.answer()


def measure(ours, peer, name, device, threads, rounds):
    row = {"name": name, "threads": threads}
    for who, worker in (("ours", ours), ("peer", peer)):
        answer = worker.ask(open=name, device=device, threads=threads)
        if "error" not in answer:
            answer = worker.ask(run=FIRST_STEPS)
        row[who + "_loss"], row[who + "_error"] = answer.get("loss"), answer.get("error")
        row[who + "_first"] = answer.get("seconds")
    if row["ours_error"] or row["peer_error"]:
        return row
    # As many steps in a measurement as make about a tenth of a second.
    guess = max(row["ours_first"], row["peer_first"]) / FIRST_STEPS
    count = max(1, min(100, int(0.1 / guess)))
    times = {"ours": [], "peer": []}
    for round_ in range(rounds):
        order = [("ours", ours), ("peer", peer)]
        for who, worker in order if round_ % 2 else reversed(order):
            times[who].append(worker.ask(run=count)["seconds"] / count)
    row["ours"], row["peer"] = statistics.median(times["ours"]), statistics.median(times["peer"])
    row["ratio"] = row["peer"] / row["ours"]
    row["loss_apart"] = abs(row["ours_loss"] - row["peer_loss"]) / max(abs(row["peer_loss"]), 1e-9)
    return row


def main():
    sys.path.insert(0, str(HERE))
    from steps import CASES
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments.add_argument("--threads", default="1,all")
    arguments.add_argument("--filter", default="")
    arguments.add_argument("--rounds", type=int, default=11)
    arguments.add_argument("--json")
    arguments.add_argument("--markdown")
    arguments.add_argument("--peer", default=sys.executable)
    arguments.add_argument("--ours", default=sys.executable)
    arguments.add_argument("--command", default="bench/train/run.py " + " ".join(sys.argv[1:]))
    options = arguments.parse_args()

    ours, peer = Worker(options.ours, "facula"), Worker(options.peer, "torch")
    cores = len(os.sched_getaffinity(0))
    threads = [cores] if options.device == "cuda" else sorted(
        {cores if each == "all" else int(each) for each in options.threads.split(",")})
    lines = ["| case | threads | Facula ms | PyTorch ms | ratio | loss after 20 steps, ours and its |",
             "|---|---:|---:|---:|---:|---|"]
    rows = []
    for name in CASES[options.device]:
        if not re.search(options.filter, name):
            continue
        for count in threads:
            row = measure(ours, peer, name, options.device, count, options.rounds)
            rows.append(row)
            if "ratio" in row:
                lines.append(f"| {name} | {count} | {row['ours'] * 1e3:.3f} | {row['peer'] * 1e3:.3f} | "
                             f"{row['ratio']:.2f} | {row['ours_loss']:.5f} {row['peer_loss']:.5f} |")
            else:
                lines.append(f"| {name} | {count} | | | | {row['ours_error'] or row['peer_error']} |")
            print(lines[-1], flush=True)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        mean = math.exp(sum(math.log(each) for each in ratios) / len(ratios))
        lines += ["", f"Geometric mean of {len(ratios)} ratios: {mean:.2f}, least {min(ratios):.2f}."]
        print(lines[-1])
    head = [f"# Training steps on {options.device}: Facula {ours.version} and PyTorch {peer.version}", "",
            f"{datetime.datetime.now().isoformat(timespec='seconds')}, `{options.command}`, "
            f"{platform.machine()}, {cores} cores. A ratio above 1 means that ours is faster.", ""]
    if options.markdown:
        pathlib.Path(options.markdown).write_text("\n".join(head + lines) + "\n")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"command": options.command, "rows": rows}, indent=1))
    if any("error" in row for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
