#!/bin/sh
# build.sh FOLDER: the software GPU without CMake, into FOLDER/cuda and FOLDER/hip.
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?where to}
: "${CXX:=g++}"
engine="engine memory streams graphs kernels fibers faults"

# library LIBRARY SHAPE DEFINE FILES...
library() {
  name=$1 shape=$2 define=$3
  shift 3
  mkdir -p "$out/$shape/objects"
  objects=""
  for file in "$@"; do
    object="$out/$shape/objects/$file.o"
    newest=$(ls -t "$object" "$here/$file.cpp" "$here"/*.h "$here"/device_*.cpp 2>/dev/null | head -1)
    if [ "$newest" != "$object" ]; then
      $CXX -std=c++20 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wshadow $define "-Wa,-I,$here" -c "$here/$file.cpp" -o "$object"
    fi
    objects="$objects $object"
  done
  $CXX -shared "-Wl,-soname,$name" -Wl,-Bsymbolic -Wl,--no-undefined $objects -o "$out/$shape/$name.new" -ldl -lpthread
  mv "$out/$shape/$name.new" "$out/$shape/$name"
}

library libcuda.so.1 cuda -DSIMGPU_SHAPE_CUDA cuda_shape $engine
library libnvrtc.so.12 cuda -DSIMGPU_SHAPE_CUDA nvrtc_shape compiler kernel_text $engine
if [ -f "$here/hip_shape.cpp" ]; then
  library libamdhip64.so.5 hip -DSIMGPU_SHAPE_HIP hip_shape $engine
  library libhiprtc.so.5 hip -DSIMGPU_SHAPE_HIP hiprtc_shape compiler kernel_text $engine
fi
