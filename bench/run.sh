#!/usr/bin/env bash
# Builds and runs the benchmarks against libtorch: `run.sh cpu|memory|compile [options]`, and against PyTorch:
# `run.sh gpu|train [options]`. What is measured is in cpu/, compile/, gpu/ and train/; here the peer is found and set up so that it is as
# fast as it can be.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repo="$(dirname "$here")"

usage() {
  cat <<'TEXT'
usage: bench/run.sh cpu|memory|compile|gpu|train [options]

  --peer wheel|debian|DIR  libtorch to compare with: the Python package, the system's, or a folder with include/ and
                           lib/ (default: FACULA_LIBTORCH, else the Python package, else the system's)
  --facula DIR             installed or unpacked Facula, or a build folder (default: build/release)
  --build DIR              where the benchmark itself is built (default: build/bench-PEER)
  --json FILE              results for compare.py
cpu:
  --filter REGEX           cases whose name or group matches
  --threads 1,all          thread counts
  --quick                  fewer and shorter rounds
  --list                   names of the cases
  --markdown FILE          results as a table
  --self-check             the peer against itself: every ratio should be near 1
compile:
  --repeat N               compilations of each (default 5)
gpu: --facula, --json, --filter, --quick, --list and --markdown as above; nothing is built
  --peer PYTHON            a Python with PyTorch (default: python3), or `none`
train: --threads, --filter, --json and --markdown as above; nothing is built
  --device cpu|cuda        where to train (default: cpu)
  --rounds N               measurements of each (default 11)
  --facula DIR             the folder of the Python package (default: build/release/python)
  --peer PYTHON            a Python with PyTorch (default: the one that runs ours)
TEXT
}

die() { echo "bench: $*" >&2; exit 2; }

command="bench/run.sh $*"
mode="${1:-}"
case "$mode" in
  cpu|memory|compile|gpu|train) shift ;;
  -h|--help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

peer="" facula="" build="" json="" self_check=0 repeat=5
driver_options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --peer|--facula|--build|--json|--repeat|--filter|--threads|--markdown|--device|--rounds)
      [ $# -ge 2 ] || die "$1 needs a value" ;;
  esac
  case "$1" in
    --peer) peer="$2"; shift ;;
    --facula) facula="$(realpath "$2")" || die "no such folder: $2"; shift ;;
    --build) build="$2"; shift ;;
    --json) json="$2"; driver_options+=("$1" "$2"); shift ;;
    --repeat) repeat="$2"; shift ;;
    --filter|--threads|--markdown|--device|--rounds) driver_options+=("$1" "$2"); shift ;;
    --quick|--list) driver_options+=("$1") ;;
    --self-check) self_check=1 ;;
    -h|--help) usage; exit 0 ;;
    *) die "unknown option $1" ;;
  esac
  shift
done

# ---- A GPU ----

# The program was built with the library (or lies in a pack, above this folder); the peer is a Python with PyTorch.
run_gpu() {
  local program="" folder python="${peer:-python3}" results=()
  for folder in ${facula:+"$facula/bin"} "$repo/build/release/bin" "$here/../../../bin"; do
    if [ -x "$folder/facula_bench_gpu" ]; then program="$folder/facula_bench_gpu"; break; fi
  done
  [ -n "$program" ] || die "facula_bench_gpu is not built: ./dev bench gpu does it, or pass --facula DIR"
  if [ "$python" = none ]; then python=""; fi
  if [ -z "$json" ]; then results=(--results "$here/results"); fi
  exec python3 "$here/gpu/run.py" --ours "$program" --peer "$python" --command "$command" \
    ${results[@]+"${results[@]}"} ${driver_options[@]+"${driver_options[@]}"}
}
if [ "$mode" = gpu ]; then run_gpu; fi

# The kernels that OpenBLAS takes.
blas_core() {
  python3 -c 'import ctypes
blas = ctypes.CDLL("libopenblas.so.0")
blas.openblas_get_corename.restype = ctypes.c_char_p
print(blas.openblas_get_corename().decode())' 2>/dev/null || echo unknown
}

# Kernels of less than the chip can do: an OpenBLAS that has not heard of a chip takes what it knows. The first name that it knows is taken.
ask_for_blas_core() {
  local own="$core" name names=() flags
  flags="$(grep -m1 -E '^flags' /proc/cpuinfo || true) "
  case "$flags" in *" amx_tile "*) names+=(SAPPHIRERAPIDS) ;; esac
  case "$flags" in *" avx512vl "*) names+=(SKYLAKEX) ;; esac
  case "$flags" in *" avx2 "*) names+=(HASWELL) ;; esac
  for name in ${names[@]+"${names[@]}"}; do
    export OPENBLAS_CORETYPE="$name"
    core="$(blas_core)"
    if [ "${core^^}" = "$name" ]; then break; fi
    unset OPENBLAS_CORETYPE
    core="$own"
  done
  if [ "$core" != "$own" ]; then core="$core (set here; by itself it chose $own)"; fi
}

# The system's libtorch takes whichever BLAS is installed. The reference BLAS, or OpenBLAS on a chip newer than itself,
# would lose by an order of magnitude for reasons that are not the peer's.
blas="built in"
check_system_blas() {
  local library core wanted
  library="$(ldconfig -p | awk '/libblas\.so\.3 / && !found {print $NF; found = 1}')"
  blas="$(readlink -f "${library:-/nonexistent}" || true)"
  case "$blas" in
    */openblas-openmp/*) ;;
    *) die "libtorch would use ${blas:-no BLAS at all}: install libopenblas0-openmp and select it with
       update-alternatives --config libblas.so.3-$(uname -m)-linux-gnu" ;;
  esac
  # What OpenBLAS takes by itself; a setting in the environment may have been made for another machine.
  unset OPENBLAS_CORETYPE
  core="$(blas_core)"
  case "$core" in
    Cooperlake|SapphireRapids|SkylakeX|Zen[2-9]*|Neoverse*|ARMV*|VORTEX|POWER*) ;;
    *) ask_for_blas_core ;;
  esac
  blas="$blas, kernels for $core"
}
# ---- Training steps, in Python ----

run_train() {
  local python="$repo/build/venv/bin/python" ours="$repo/build/release/python"
  [ -x "$python" ] || python=python3
  if [ -n "$facula" ]; then ours="$facula"; fi
  if "$python" -c 'import sys, torch; sys.exit("dist-packages" not in torch.__file__)' 2>/dev/null; then
    check_system_blas
  fi
  PYTHONPATH="$ours${PYTHONPATH:+:$PYTHONPATH}" exec "$python" "$here/train/run.py" ${peer:+--peer "$peer"} \
    --command "$command" ${driver_options[@]+"${driver_options[@]}"}
}
if [ "$mode" = train ]; then run_train; fi

# ---- The peer ----

# Prints the root of the Python package and its C++ ABI flag.
find_wheel() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import os, torch
print(os.path.dirname(torch.__file__), int(torch._C._GLIBCXX_USE_CXX11_ABI), torch.__version__, sep="\n")' \
      2>/dev/null && return 0
  done
  return 1
}

peer="${peer:-${FACULA_LIBTORCH:-}}"
peer_root="" peer_abi="" peer_name=""
if [ -z "$peer" ] || [ "$peer" = wheel ]; then
  if facts="$(find_wheel)"; then
    { read -r peer_root; read -r peer_abi; read -r peer_name; } <<<"$facts"
    peer=wheel
    peer_name="Python package $peer_name"
  elif [ "$peer" = wheel ]; then
    die "no python3 here has the package torch"
  else
    peer=debian
  fi
fi
case "$peer" in
  wheel) label=wheel ;;
  debian)
    label=debian
    peer_name="the system's package"
    [ -e /usr/include/torch/csrc/api/include/torch/torch.h ] || die "libtorch is not here: install libtorch-dev" ;;
  *)
    label=other
    peer_root="$(realpath "$peer")" || die "no such folder: $peer"
    [ -e "$peer_root/include/torch/csrc/api/include/torch/torch.h" ] || die "$peer/include has no headers of libtorch"
    peer_name="$(basename "$peer_root")" ;;
esac

if [ "$label" = debian ]; then check_system_blas; fi

# ---- Facula ----

facula_include="" facula_library="" facula_prefix=""
find_facula() {
  local root="${1:-$repo/build/release}" library
  if [ -n "$(find "$root" -maxdepth 5 -name 'FaculaConfig.cmake' -print -quit 2>/dev/null)" ] &&
     [ -d "$root/include/facula" ]; then
    facula_prefix="$root"
    facula_include="$root/include"
    return
  fi
  library="$(find "$root" -maxdepth 5 -name 'libfacula.so' -printf '%T@ %p\n' 2>/dev/null |
    sort -rn | cut -d' ' -f2- | sed -n 1p || true)"
  [ -n "$library" ] || die "no libfacula.so below $root: build the library first, or pass --facula DIR"
  facula_library="$library"
  facula_include="$repo/include"
  if [ -d "$root/include/facula" ]; then facula_include="$root/include"; fi
}

# ---- What is asked for ----

if [ "$mode" = compile ]; then
  facula_include="$repo/include"
  if [ -n "$facula" ] && [ -d "$facula/include/facula" ]; then facula_include="$facula/include"; fi
  exec python3 "$here/compile/measure.py" --ours-include "$facula_include" --peer-include "${peer_root:-/usr}/include" \
    --peer-name "$peer_name" --repeat "$repeat" ${peer_abi:+--peer-abi "$peer_abi"} ${json:+--json "$json"}
fi

build="${build:-$repo/build/bench-$label}"
configure=(-S "$here" -B "$build" -DCMAKE_BUILD_TYPE=Release
  "-DFACULA_BENCH_PEER_ROOT=$peer_root" "-DFACULA_BENCH_PEER_ABI=$peer_abi")
if [ "$self_check" = 1 ]; then
  configure+=(-DFACULA_BENCH_OURS=OFF)
else
  find_facula "$facula"
  configure+=(-DFACULA_BENCH_OURS=ON)
  if [ -n "$facula_prefix" ]; then configure+=("-DCMAKE_PREFIX_PATH=$facula_prefix" -DFACULA_BENCH_LIBRARY=)
  else configure+=("-DFACULA_BENCH_LIBRARY=$facula_library" "-DFACULA_BENCH_INCLUDE=$facula_include"); fi
fi
log="$(mktemp)"
if ! { cmake "${configure[@]}" && cmake --build "$build"; } >"$log" 2>&1; then
  cat "$log" >&2
  rm -f "$log"
  die "the benchmark does not build"
fi
rm -f "$log"

if [ "$mode" = memory ]; then
  # The highest memory of a training step of a small transformer, each library in a process of its own.
  for library in ours peer; do "$build/facula_bench_${library}_memory"; done
  exit 0
fi

plugin="$build/facula_bench_peer.so"
[ -e "$plugin" ] || die "libtorch was not found below ${peer_root:-/usr}"
ours="$build/facula_bench_ours.so"
if [ "$self_check" = 1 ]; then
  # A copy, or the loader would hand out one and the same plugin twice.
  ours="$build/facula_bench_self.so"
  cp "$plugin" "$ours"
fi
exec "$build/facula_bench" --ours "$ours" --peer "$plugin" \
  --note "command=$command" --note "peer from=$peer_name" --note "peer's BLAS=$blas" \
  ${driver_options[@]+"${driver_options[@]}"}
