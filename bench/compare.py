#!/usr/bin/env python3
"""Prints results of `run.sh cpu --json`, compares two of them, and holds them to the project's bars.

  compare.py RESULT.json                      the table by group and the worst cases
  compare.py OLD.json NEW.json                what became faster or slower between two runs of ours
  compare.py --bars debian|wheel RESULT.json  exits 1 when a bar is missed; several results are runs of one thing, of
                                              which each case's median counts
"""

import argparse
import json
import math
import pathlib
import statistics
import sys

# Ratios are the peer's time divided by ours. A case with a name of its own has a bar of its own.
BARS = {
    "debian": {
        "geomean": 2.0,
        "case": 1.0,
        "groups": {"matmul": 0.95},
        "cases": {"add tiny f32": 2.0, "chain of six large f32": 8.0, "mul sum backward tiny f32": 3.0,
                  "mlp 8x64 step f32": 2.0},
    },
    "wheel": {"geomean": 1.3, "case": 0.9, "groups": {}, "cases": {}},
}


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def sound(report):
    return [row for row in report["results"] if "problem" not in row]


def median_of(reports):
    """One report with each case's run of median ratio, the lower of two. What is void once stays void."""
    def what(report):
        notes = [report["notes"].get(key) for key in ("cpu", "peer", "peer from", "rounds")]
        return json.dumps([notes, [(row["case"], row["threads"]) for row in report["results"]]])

    if len({what(report) for report in reports}) > 1:
        sys.exit("compare.py: these are not runs of the same cases against the same peer on the same machine")
    results = []
    for runs in zip(*(report["results"] for report in reports)):
        void = [row for row in runs if "problem" in row]
        ratio = None if void else statistics.median_low(row["ratio"] for row in runs)
        results.append(void[0] if void else next(row for row in runs if row["ratio"] == ratio))
    return {"notes": {**reports[0]["notes"], "runs": len(reports)}, "results": results}


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 0.0


def label(row):
    return f"{row['case']}, {row['threads']} thread{'s' if row['threads'] != 1 else ''}"


def human_time(nanoseconds):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.2f} {unit}"
    return f"{nanoseconds:.0f} ns"


def print_report(report):
    for key, value in report["notes"].items():
        print(f"{key}: {value}")
    rows = sound(report)
    threads = sorted({row["threads"] for row in rows})
    print("\n" + "group".ljust(14) + "".join(f"{count:>4} thr" for count in threads))
    groups = list(dict.fromkeys(row["group"] for row in rows))
    for group in groups + ["all"]:
        chosen = [row for row in rows if group in (row["group"], "all")]
        means = [geomean(row["ratio"] for row in chosen if row["threads"] == count) for count in threads]
        print(group.ljust(14) + "".join(f"{mean:8.2f}" for mean in means))
    print("\nworst")
    for row in sorted(rows, key=lambda row: row["ratio"])[:15]:
        print(f"{row['ratio']:6.2f}  {label(row):50} {human_time(row['ours_ns']):>10} {human_time(row['peer_ns']):>10}")
    for row in report["results"]:
        if "problem" in row:
            print(f"  VOID  {label(row)}: {row['problem']}")
    print(f"\ngeometric mean {geomean(row['ratio'] for row in rows):.3f} over {len(rows)} results")


def print_change(old, new):
    """The peer is the yardstick: a change of the ratio is ours, a change of the machine is in both."""
    before = {(row["case"], row["threads"]): row for row in sound(old)}
    pairs = [(before[key], row) for row in sound(new) if (key := (row["case"], row["threads"])) in before]
    pairs.sort(key=lambda pair: pair[1]["ratio"] / pair[0]["ratio"])
    changed = [pair for pair in pairs if abs(math.log(pair[1]["ratio"] / pair[0]["ratio"])) > 0.1]
    print("change  old ratio  new ratio  ours old -> new")
    for a, b in changed:
        print(f"{b['ratio'] / a['ratio']:6.2f}  {a['ratio']:9.2f}  {b['ratio']:9.2f}  "
              f"{human_time(a['ours_ns'])} -> {human_time(b['ours_ns'])}  {label(b)}")
    print(f"\n{len(changed)} of {len(pairs)} results moved by more than a tenth; geometric mean of the ratios "
          f"{geomean(a['ratio'] for a, _ in pairs):.3f} -> {geomean(b['ratio'] for _, b in pairs):.3f}")


def missed_bars(report, bars):
    missed = [f"{label(row)}: void, {row['problem']}" for row in report["results"] if "problem" in row]
    rows = sound(report)
    mean = geomean(row["ratio"] for row in rows)
    if mean < bars["geomean"]:
        missed.append(f"geometric mean {mean:.3f}, wanted {bars['geomean']}")
    for row in sorted(rows, key=lambda row: row["ratio"]):
        wanted = bars["cases"].get(row["case"], bars["groups"].get(row["group"], bars["case"]))
        if row["ratio"] < wanted:
            missed.append(f"{label(row)}: {row['ratio']:.2f}, wanted {wanted} "
                          f"(ours {human_time(row['ours_ns'])}, peer {human_time(row['peer_ns'])})")
    names = {row["case"] for row in report["results"]}
    missed += [f"{name}: not measured" for name in bars["cases"] if name not in names]
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", help="one, or an older and a newer one; with --bars several runs")
    parser.add_argument("--bars", choices=sorted(BARS))
    arguments = parser.parse_args()
    if len(arguments.results) > 2 and arguments.bars is None:
        parser.error("at most two results without --bars")
    reports = [load(path) for path in arguments.results]
    if arguments.bars is not None:
        reports = [median_of(reports)]
    if len(reports) == 2:
        print_change(*reports)
    else:
        print_report(reports[0])
    if arguments.bars is None:
        return 0
    missed = missed_bars(reports[-1], BARS[arguments.bars])
    print(f"\nbars ({arguments.bars}): " + ("all met" if not missed else f"{len(missed)} missed"))
    for line in missed:
        print("  " + line)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
