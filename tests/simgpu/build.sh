#!/bin/sh
# build.sh FOLDER: the software GPU without CMake, into FOLDER/cuda and FOLDER/hip, and FOLDER/*_blas,
# FOLDER/*_dnn and FOLDER/*_ranges beside them.
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?where to}
: "${CXX:=g++}"
engine="engine memory streams graphs kernels fibers faults"
driver="$engine library_abi"

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

library libcuda.so.1 cuda -DSIMGPU_SHAPE_CUDA cuda_shape $driver
library libnvrtc.so.12 cuda -DSIMGPU_SHAPE_CUDA nvrtc_shape compiler kernel_text $engine
library libcublasLt.so.12 cuda_blas -DSIMGPU_SHAPE_CUDA blas_lt_shape blas
library libcudnn.so.9 cuda_dnn -DSIMGPU_SHAPE_CUDA cudnn_shape dnn blas
library libamdhip64.so.5 hip -DSIMGPU_SHAPE_HIP hip_shape $driver
library libhiprtc.so.5 hip -DSIMGPU_SHAPE_HIP hiprtc_shape compiler kernel_text $engine
library librocblas.so.0 hip_blas -DSIMGPU_SHAPE_HIP rocblas_shape blas
library libhipblaslt.so.0 hip_blas -DSIMGPU_SHAPE_HIP blas_lt_shape blas
library libMIOpen.so.1 hip_dnn -DSIMGPU_SHAPE_HIP miopen_shape dnn blas
library libnvtx_profiler.so cuda_ranges -DSIMGPU_SHAPE_CUDA ranges_shape
library libroctx64.so.4 hip_ranges -DSIMGPU_SHAPE_HIP ranges_shape
