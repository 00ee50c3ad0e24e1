#!/usr/bin/env python3
"""Ours and PyTorch on the same GPU, case by case in turn: prints time, ratio, bound and bar of every case, and writes JSON.

run.py --ours PROGRAM [--peer PYTHON] [--filter REGEX] [--json FILE] [--markdown FILE] [--results DIR] [--quick] [--list]
       [--command TEXT]

A ratio above 1 means that ours is faster. The bound is what the chip's memory or its arithmetic units need at least.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS, RUNS = 3, 10  # rounds of both sides, and timed runs of one side in a round
HOST_RUNS = 3  # the same for figures of the host, where a run is thousands of calls

# Peak rates of chips by their name, from their data sheets: bytes/s, and operations/s by kind of matrix product.
CHIPS = {
    "H200": {"memory": 4.8e12, "bf16": 989e12, "f32": 67e12, "tf32": 494e12, "f64": 67e12, "int": 1979e12},
    "H100": {"memory": 3.35e12, "bf16": 989e12, "f32": 67e12, "tf32": 494e12, "f64": 67e12, "int": 1979e12},
    "A100": {"memory": 2.0e12, "bf16": 312e12, "f32": 19.5e12, "tf32": 156e12, "f64": 19.5e12, "int": 624e12},
}

# The bars, as (pattern, kind, value): TB/s at least on an H200, share of the peer's speed at least, microseconds at most. The
# first pattern that matches is taken.
BARS = [
    (r"^chain6_f32_eager$", None, None),  # several passes by definition
    (r"^(copy|add|gelu|mul|cast|add_mixed|chain6)_", "TB/s", 4.1),
    (r"^(transpose|bcast|strided|permute)_", "TB/s", 3.6),
    (r"^(sum|mean|var|argmax|logsumexp)_", "TB/s", 3.8),
    (r"^randn_", "TB/s", 3.0),
    (r"^softmax_bf16_", "TB/s", 3.5),
    (r"^layernorm_fwd_", "TB/s", 3.8),
    (r"^layernorm_bwd_", "TB/s", 3.0),
    (r"^adamw_fused_", "TB/s", 3.8),
    (r"^cross_entropy_fwdbwd_", "us", 700),
    (r"^(mm|bmm|linear|gemv|int_mm)_", "peer", 0.98),
    (r"^sdpa_fwd_bf16_B1H16S16384D128$", "us", 6374),  # 345 TFLOP/s
    (r"^sdpa_bwd_bf16_B1H16S16384D128$", "us", 18326),  # 300 TFLOP/s
    (r"^overhead_add$", "us", 5.5),
    (r"^overhead_empty$", "us", 0.3),
    (r"^first_op_cold$", "us", 1e6),
    (r"^first_op_warm$", "us", 0.3e6),
]


class Worker:
    """One side: a process that runs cases on request."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )

    def ask(self, line):
        if self.process.poll() is not None:
            return {"problem": f"the process ended with status {self.process.returncode}"}
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"problem": "the process ended"}
        while answer := self.process.stdout.readline():
            # Libraries may print too.
            if answer.startswith("{"):
                return json.loads(answer)
        return {"problem": f"the process ended with status {self.process.wait()}"}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def bound_us(case, chip):
    if not chip:
        return None
    if case["bytes"]:
        return case["bytes"] / chip["memory"] * 1e6
    if case["flops"]:
        kind = next((k for k in ("bf16", "tf32", "f32", "f64", "int") if k in case["name"]), None)
        return case["flops"] / chip[kind] * 1e6 if kind else None
    return None


def bar_of(name):
    for pattern, kind, value in BARS:
        if re.search(pattern, name):
            return kind, value
    return None, None


def judge(row, bytes_moved, device):
    """Adds bar and verdict to a row."""
    kind, value = bar_of(row["name"])
    if kind is None or "ours_us" not in row or (kind == "TB/s" and "H200" not in device):
        return
    if kind == "peer" and "ratio" not in row:
        return
    if kind == "TB/s":
        row["bar"] = f"{value} TB/s"
        row["ok"] = bytes_moved / row["ours_us"] / 1e6 >= value
    elif kind == "peer":
        row["bar"] = f"{value} of the peer"
        row["ok"] = row["ratio"] >= value
    else:
        row["bar"] = f"{value:g} us"
        row["ok"] = row["ours_us"] <= value


def measure(case, ours, peer, rounds, runs):
    row = {"name": case["name"]}
    prepared = ours.ask(f"prepare {case['name']}")
    if "problem" in prepared:
        # An op without a kernel for GPUs is missing; anything else is wrong.
        row["missing" if prepared["problem"].startswith("NotSupportedError") else "problem"] = prepared["problem"]
        return row
    row["error"] = prepared["error"]
    with_peer = peer is not None and case["in_peer"]
    if with_peer:
        answer = peer.ask(f"prepare {case['name']}")
        if "problem" in answer:
            row["peer_problem"] = answer["problem"]
            with_peer = False
    times = {"ours": [], "peer": []}
    host = {"ours": [], "peer": []}
    for number in range(rounds):
        turn = [("ours", ours)] + ([("peer", peer)] if with_peer else [])
        for side, worker in turn if number % 2 == 0 else reversed(turn):
            answer = worker.ask(f"time {case['name']} {runs}")
            if "problem" in answer:
                row["problem" if side == "ours" else "peer_problem"] = answer["problem"]
                return row
            times[side] += answer["us"]
            host[side] += answer.get("host_us", [])
    for worker in [ours] + ([peer] if with_peer else []):
        worker.ask("drop")
    for side in ("ours", "peer"):
        if times[side]:
            row[f"{side}_us"] = statistics.median(times[side])
            # Half of the runs lie between these two.
            row[f"{side}_quartiles"] = statistics.quantiles(times[side], n=4)[::2]
        if host[side]:
            row[f"{side}_host_us"] = statistics.median(host[side])
    if "peer_us" in row:
        row["ratio"] = row["peer_us"] / row["ours_us"]
    return row


def first_ops(ours, peer, repeat=3):
    """Fresh processes: with an empty folder for compiled kernels, then with what the first one left there."""

    def run(command, environment):
        done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines or not json.loads(lines[-1])["right"]:
            raise RuntimeError(f"{command} fails with status {done.returncode}")
        return json.loads(lines[-1])["us"]

    rows = {"first_op_cold": [], "first_op_warm": []}
    peers = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            for name in rows:
                rows[name].append(run([ours, "--first-op"], {"FACULA_CACHE_DIR": folder}))
        if peer:
            peers.append(run([peer, str(HERE / "peer.py"), "--first-op"], {}))
    result = []
    for name, times in rows.items():
        row = {"name": name, "ours_us": statistics.median(times)}
        if peers:
            row["peer_us"] = statistics.median(peers)
            row["ratio"] = row["peer_us"] / row["ours_us"]
        result.append(row)
    return result


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def table(rows, cases):
    yield ["case", "ours us", "peer us", "ratio", "bound us", "ours", "peer", "bar", "ok"]
    for row in rows:
        case = cases.get(row["name"], {})
        amount, unit = (case.get("bytes"), "TB/s") if case.get("bytes") else (case.get("flops"), "TFLOP/s")

        def rate(us):
            return f"{amount / us / 1e6:.2f} {unit}" if amount and us else "-"

        if "problem" in row or "missing" in row:
            words = ["VOID", row["problem"]] if "problem" in row else ["missing", row["missing"]]
            yield [row["name"], words[0], "", "", "", words[1][:60], "", "", ""]
            continue
        yield [
            row["name"], number(row["ours_us"]), number(row.get("peer_us")), number(row.get("ratio")),
            number(row.get("bound_us")), rate(row["ours_us"]), rate(row.get("peer_us")), row.get("bar", "-"),
            {True: "yes", False: "NO", None: ""}[row.get("ok")],
        ]


def print_table(lines):
    lines = list(lines)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print(line[0].ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(line[1:], widths[1:])], sep="  ", flush=True)


def markdown(report, lines):
    out = [f"# {report['device']}: {report['ours']} and {report['peer']}", ""]
    out += [f"{report['date']}, `{report['command']}`. Medians of {report['samples']} runs, both sides in turn."]
    out += ["A ratio above 1 means that ours is faster.", ""]
    for i, line in enumerate(lines):
        out.append("| " + " | ".join(line) + " |")
        if i == 0:
            out.append("|" + "---|" + "---:|" * (len(line) - 1))
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="the program facula_bench_gpu")
    parser.add_argument("--peer", default=sys.executable, help="a Python with PyTorch; an empty text leaves the peer out")
    parser.add_argument("--filter", default=".")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, help="folder for both, named by date and device")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--command", default=" ".join(sys.argv), help="what the report says it was made by")
    options = parser.parse_args()

    peer_python = options.peer
    if options.list:
        peer_python = ""
    if peer_python and subprocess.run([peer_python, "-c", "import torch; assert torch.cuda.is_available()"],
                                      stderr=subprocess.DEVNULL).returncode != 0:
        print(f"bench: {peer_python} has no PyTorch that sees a GPU: no peer to compare with", file=sys.stderr)
        peer_python = ""
    ours = Worker([options.ours])
    listed = ours.ask("list")
    if "problem" in listed:
        sys.exit(f"bench: {listed['problem']}")
    peer = Worker([peer_python, str(HERE / "peer.py")]) if peer_python else None
    peer_list = peer.ask("list") if peer else {"library": "no peer", "cases": []}
    in_peer = {case["name"] for case in peer_list["cases"]}
    cases = {c["name"]: {**c, "in_peer": c["name"] in in_peer} for c in listed["cases"] if re.search(options.filter, c["name"])}
    if options.list:
        print("\n".join(cases))
        return 0

    chip = next((rates for name, rates in CHIPS.items() if name in listed["device"]), None)
    rounds = 1 if options.quick else ROUNDS
    print(f"{listed['device']}: {listed['library']} and {peer_list['library']}", flush=True)
    rows = []
    for case in cases.values():
        row = measure(case, ours, peer, rounds, HOST_RUNS if case["host"] else RUNS)
        row["bound_us"] = bound_us(case, chip)
        judge(row, case["bytes"], listed["device"])
        rows.append(row)
        print("  " + " ".join(next(iter(list(table([row], cases))[1:]))), flush=True)
    ours.close()
    if peer:
        peer.close()
    if re.search(options.filter, "first_op_cold") or re.search(options.filter, "first_op_warm"):
        for row in first_ops(options.ours, peer_python):
            judge(row, 0, listed["device"])
            rows.append(row)

    print()
    lines = list(table(rows, cases))
    print_table(lines)
    judged = [row for row in rows if "ok" in row]
    void = [row["name"] for row in rows if "problem" in row]
    print(f"\nbars: {sum(row['ok'] for row in judged)} of {len(judged)} met" + (f"; void: {' '.join(void)}" if void else ""))
    report = {
        "device": listed["device"], "ours": listed["library"], "peer": peer_list["library"],
        "date": datetime.datetime.now().isoformat(timespec="seconds"), "command": options.command,
        "samples": rounds * RUNS, "cases": rows,
    }
    if options.results and not options.json and not options.quick:
        name = re.sub(r"[^a-z0-9.]+", "-", f"{report['date'][:10]}-gpu-{report['device']}-{report['peer']}".lower())
        options.json, options.markdown = options.results / f"{name}.json", options.results / f"{name}.md"
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(report, lines))
    return 1 if void else 0


if __name__ == "__main__":
    sys.exit(main())
