#!/usr/bin/env python3
"""Runs an example and checks that it learned: the losses in its line `loss: first X last Y` must differ by at least so
much.

    check_loss.py --by 0.5 -- PROGRAM [ARGS]
"""
import argparse
import math
import re
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", type=float, required=True, help="how much lower the last loss must be than the first")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()

    done = subprocess.run(arguments.command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, end="")
    if done.returncode != 0:
        sys.exit(f"check_loss: the example ended with {done.returncode}")
    lines = re.findall(r"^loss: first (\S+) last (\S+)$", done.stdout, re.M)
    if len(lines) != 1:
        sys.exit(f"check_loss: expected one line `loss: first X last Y`, got {len(lines)}")
    first, last = (float(each) for each in lines[0])
    if not (math.isfinite(first) and math.isfinite(last)):
        sys.exit("check_loss: a loss is not finite")
    if first - last < arguments.by:
        sys.exit(f"check_loss: the loss went from {first} to {last}; it should fall by at least {arguments.by}")


if __name__ == "__main__":
    main()
