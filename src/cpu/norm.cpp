// The CPU kernels of layer_norm and rms_norm: walk the rows of a contiguous tensor with threads. The arithmetic is in simd/rowwise_ops.cpp.
#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"
#include "cpu/simd/rowwise_ops.h"

#include <facula/tensor.h>

#include <algorithm>

namespace facula {
namespace {

// Entries that are worth a thread.
constexpr int64_t kGrain = 4096;

// Rows of `n` entries; input and result are contiguous and of one dtype, weight and bias are contiguous in the dtype of the compute type
// or undefined.
void run(const Tensor& input, int64_t n, const Tensor& weight, const Tensor& bias, double eps, const Tensor& result,
         bool center) {
  const TensorImpl *in = input.impl(), *out = result.impl();
  if (out->numel == 0) return;
  const CType type = compute_type(in->dtype);
  const cpu::RowOps& ops = cpu::row_ops(type);
  const auto row = center ? ops.layer_norm : ops.rms_norm;
  const void* w = weight.defined() ? weight.impl()->data() : nullptr;
  const void* b = bias.defined() ? bias.impl()->data() : nullptr;
  const ConvertFn load = load_fn(in->dtype), store = store_fn(in->dtype);
  const int64_t stride = n * static_cast<int64_t>(elementSize(in->dtype)),
                work_stride = n * static_cast<int64_t>(ctype_size(type));
  const char* from = in->data();
  char* to = out->data();
  parallel_rows(in->numel / n, n, kGrain, [&](int64_t begin, int64_t end) {
    if (!load) {
      for (int64_t r = begin; r < end; ++r) row(from + r * stride, to + r * stride, n, w, b, eps);
      return;
    }
    // Short rows are converted several at a time.
    const int64_t block = std::max<int64_t>(1, 2048 / n);
    detail::Scratch scratch(static_cast<size_t>(std::min(block, end - begin) * work_stride));
    for (int64_t first = begin; first < end; first += block) {
      const int64_t rows = std::min(block, end - first);
      load(from + first * stride, scratch.data(), static_cast<size_t>(rows * n));
      for (int64_t r = 0; r < rows; ++r) {
        char* x = scratch.data() + r * work_stride;
        row(x, x, n, w, b, eps);
      }
      store(scratch.data(), to + first * stride, static_cast<size_t>(rows * n));
    }
  });
}

void layer_norm_cpu(const Tensor& input, int64_t n, const Tensor& weight, const Tensor& bias, double eps,
                    const Tensor& result) {
  run(input, n, weight, bias, eps, result, true);
}
void rms_norm_cpu(const Tensor& input, int64_t n, const Tensor& weight, double eps, const Tensor& result) {
  run(input, n, weight, Tensor(), eps, result, false);
}

const KernelRegistration layer_norm_registration(OpId::layer_norm, DeviceType::CPU, &layer_norm_cpu);
const KernelRegistration rms_norm_registration(OpId::rms_norm, DeviceType::CPU, &rms_norm_cpu);

}  // namespace
}  // namespace facula
