#!/usr/bin/env bash
# run.sh PROGRAM [--filter X] [--sanitizer]: the tests of GPUs (PROGRAM is facula_gpu_tests) on the GPU of this machine, with
# the driver and the compiler that are here. Works from a build and from a pack. The records are shared out among several
# processes, since most of their time goes into compiling; everything else, which looks at memory and streams, runs alone.
# With --sanitizer all of it runs under NVIDIA's compute-sanitizer, first memcheck, then racecheck. Under memcheck every tensor
# has memory of the driver's own: in memory that is kept and cut into blocks, a write into the neighbour is a good one.
set -euo pipefail

program=${1:?"run.sh PROGRAM [--filter X] [--sanitizer]"}
shift
filter="" tools=(none)
while [[ $# -gt 0 ]]; do
  case $1 in
    --filter) filter=${2:?"--filter needs a value"}; shift 2 ;;
    --sanitizer) tools=(memcheck racecheck); shift ;;
    *) echo "run.sh: unknown option '$1'" >&2; exit 2 ;;
  esac
done
cores=$(nproc)
jobs=${FACULA_JOBS:-$((cores > 8 ? 8 : cores))}
records='Records/GpuOp.*'

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Every kernel is compiled anew, so that a cache of other days has no part in the result. Set it to keep what was compiled.
export FACULA_CACHE_DIR=${FACULA_CACHE_DIR:-$scratch/cache}
export GTEST_BRIEF=1

launcher() {
  # Tests of the caching itself turn it on.
  if [[ $1 == memcheck ]]; then echo -n "env FACULA_NO_CUDA_MEMORY_CACHING=1 "; fi
  case $1 in
    none) ;;
    # Its own exit status tells what it found from a test that failed. Calls that fail are not reported: tests provoke them.
    *) echo compute-sanitizer --tool "$1" --error-exitcode 86 --report-api-errors no --print-limit 5 ;;
  esac
}

status=0
for tool in "${tools[@]}"; do
  read -ra launch <<<"$(launcher "$tool")"
  if [[ $tool == none ]]; then
    export FACULA_TEST_RECORDS=${FACULA_TEST_RECORDS:-all}
  else
    echo "gpu tests under compute-sanitizer: $tool"
    command -v compute-sanitizer >/dev/null || { echo "run.sh: compute-sanitizer is not on PATH" >&2; exit 2; }
  fi
  if [[ -n $filter ]]; then
    "${launch[@]}" "$program" --gtest_filter="*$filter*" || status=$?
    continue
  fi
  # Under racecheck threads that use the vendor's library of matrix products wait for each other for ever.
  [[ $tool == racecheck ]] && left_out=":GpuBlas.ThreadsShareIt" || left_out=""
  "${launch[@]}" "$program" --gtest_filter="-$records$left_out" || status=$?
  pids=()
  for ((job = 0; job < jobs; ++job)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$job "${launch[@]}" "$program" --gtest_filter="$records" \
      >"$scratch/$job.log" 2>&1 &
    pids+=($!)
  done
  for ((job = 0; job < jobs; ++job)); do
    wait "${pids[job]}" || status=$?
    cat "$scratch/$job.log"
  done
done
exit "$status"
