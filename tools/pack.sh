#!/usr/bin/env bash
# pack.sh BUILD [DIR] [--gpu-tests]: collects a relocatable folder in DIR (build/pack) from the build folder BUILD: library, headers, tests, and
# the benchmarks that were built. It runs on a machine with a newer glibc and no build tools. The tests of GPUs hold the library once more,
# since they look inside; with them a pack is larger than it may be otherwise.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit=60000000        # bytes
onednn_limit=40000000 # of them for oneDNN: 39.7 MB in Debian 12. What a newer one weighs more comes on top.
build=${1:?"pack.sh BUILD [DIR] [--gpu-tests]"}
shift
dir=build/pack gpu_tests=""
for argument in "$@"; do
  case $argument in
    --gpu-tests) gpu_tests=yes limit=70000000 ;;
    -*) echo "pack: unknown option '$argument'" >&2; exit 2 ;;
    *) dir=$argument ;;
  esac
done

# The third-party shared libraries that the files in the arguments load. A machine that runs the pack brings its own C
# and C++ runtime.
third_party_libraries() {
  ldd "$@" | awk '$1 ~ /^lib(dnnl|hwy|hwy_contrib|gomp|OpenCL)\.so/ && $3 ~ /^\// { print $3 }' | sort -u
}

rm -rf "$dir"
mkdir -p "$dir/bin" "$dir/share/facula"
cmake --install "$build" --prefix "$dir" --strip >/dev/null
# The tests are only carried, so they are packed tight. Those of the inside stay at home, and so does what is linked with libtorch, which is
# far over the limit.
mkdir -p "$dir/tests"
for file in "$build"/bin/{tour,facula_bench*,facula_tests,facula_gpu_tests}; do
  if [[ ! -f $file || (-z $gpu_tests && $file == */facula_gpu_tests) || $(ldd "$file") == *libtorch* ]]; then continue; fi
  to=$dir/bin/${file##*/}
  if [[ $file == *_tests ]]; then to=$dir/tests/${file##*/}; fi
  cp "$file" "$to"
  strip "$to"
  patchelf --set-rpath "\$ORIGIN/../lib" "$to"
done
cp tests/gpu/run.sh "$dir/tests/run_gpu.sh"
# With what draws cases: a machine with NumPy and SciPy draws all of them, large ones included.
cp -r tests/truth tests/records "$dir/tests/"
cp -r ops "$dir/tests/"
find "$dir/tests" -name __pycache__ -prune -exec rm -r {} +
while read -r file; do
  cp -L "$file" "$dir/lib/"
  chmod u+w "$dir/lib/${file##*/}"
done < <(third_party_libraries "$build"/lib/libfacula.so)
for file in "$dir"/lib/*.so*; do
  [[ -L $file ]] || patchelf --set-rpath "\$ORIGIN" "$file"
done
"${FACULA_PYTHON:-/usr/bin/python3}" tests/truth/make_cases.py --out "$dir/tests/cases" --seed 1 --most-bytes 450
tar -C "$dir" --remove-files -cf - tests | xz --x86 --lzma2=preset=9e -T1 >"$dir/share/facula/tests.tar.xz"
mkdir -p "$dir/share/facula/tests"
cp -r tests/errors tests/golden "$dir/share/facula/tests/"
cp -r bench "$dir/share/facula/"
rm -r "$dir/share/facula/bench/results"
cat >"$dir/test.sh" <<'END'
#!/usr/bin/env bash
# Runs the packed tests. `test.sh [ARGS]`: those of the CPU, on packed cases; arguments go to GoogleTest.
# `test.sh gpu [--filter X] [--sanitizer]`: those of GPUs, on the GPU of this machine, on cases that are drawn here with the
# seed FACULA_SEED where python3 has NumPy and SciPy.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$work" -xJf "$here/share/facula/tests.tar.xz" 2>/dev/null ||
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/share/facula/tests.tar.xz" "$work"
mv "$work/tests/ops" "$work/ops"
ln -s "$here/lib" "$work/lib"
export FACULA_CASES="$work/tests/cases" FACULA_SOURCE_DIR="$here/share/facula"
if [[ ${1:-} == gpu ]]; then
  shift
  if [[ ! -f $work/tests/facula_gpu_tests ]]; then
    echo "test.sh: this pack was made without the tests of GPUs; make it with: ./dev pack --gpu-tests" >&2
    exit 2
  fi
  if python3 "$work/tests/truth/make_cases.py" --out "$work/drawn" --seed "${FACULA_SEED:-1}" 2>"$work/draw.log"; then
    FACULA_CASES="$work/drawn"
  else
    echo "test.sh: no cases could be drawn here ($(tail -n 1 "$work/draw.log")); the packed ones, which are small, are used"
  fi
  "$work/tests/run_gpu.sh" "$work/tests/facula_gpu_tests" "$@"
else
  FACULA_GPU=none "$work/tests/facula_tests" "$@"
fi
END
chmod +x "$dir/test.sh"

onednn=$(cat "$dir"/lib/libdnnl.so.* | wc -c)
if ((onednn > onednn_limit)); then limit=$((limit + onednn - onednn_limit)); fi
bytes=$(du -sb --apparent-size "$dir" | cut -f 1)
echo "pack: $dir, $bytes bytes of at most $limit"
if ((bytes > limit)); then
  echo "pack: too large: $(du -ab "$dir" | sort -rn | sed -n '2,8p' | tr '\n' ';')" >&2
  exit 1
fi
