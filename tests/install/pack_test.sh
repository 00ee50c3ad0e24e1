#!/usr/bin/env bash
# pack_test.sh BUILD WORK: a pack of the build is small enough, and its tests run where it was moved to, with an empty environment.
set -euo pipefail
build=${1:?"pack_test.sh BUILD WORK"} work=${2:?"pack_test.sh BUILD WORK"}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

rm -rf "$work"
mkdir -p "$work"
"$here/../../tools/pack.sh" "$build" "$work/pack"
mv "$work/pack" "$work/moved"
env -i PATH=/usr/bin:/bin HOME="$work" TMPDIR="$work" "$work/moved/test.sh" --gtest_filter='Records/*add*:Dtype*:Print*' |
  tee "$work/test.log" | tail -n 2
grep -qE '^\[  PASSED  \] [1-9][0-9]* tests?\.' "$work/test.log"
if env -i PATH=/usr/bin:/bin TMPDIR="$work" "$work/moved/test.sh" gpu 2>"$work/gpu.log"; then
  echo "pack: test.sh gpu succeeds without tests of GPUs" >&2
  exit 1
fi
grep -q -- '--gpu-tests' "$work/gpu.log"
rm -rf "$work"
