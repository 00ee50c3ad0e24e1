// The CPU kernels of the gradients of layer_norm and rms_norm: one pass over the rows, which stay in the cache while they are needed. Compiled once per
// instruction set.
#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"

#include <facula/tensor.h>

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm_backward.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/simd/sum_over-inl.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace {

// One row. `weight_sum` and `bias_sum` gather what the row says about weight and bias.
template <class T, bool kCenter>
void backward_row(const T* g, const T* x, const T* w, int64_t n, double eps, T* out, T* weight_sum, T* bias_sum, T* h) {
  const T count = static_cast<T>(n);
  T mean = 0;
  if constexpr (kCenter) mean = sum_over<T>(n, [&](int64_t i) HWY_ATTR { return x[i]; }) / count;
  const T square = sum_over<T>(n, [&](int64_t i) HWY_ATTR { return (x[i] - mean) * (x[i] - mean); }) / count;
  const T r = T(1) / std::sqrt(square + static_cast<T>(eps));
  for (int64_t i = 0; i < n; ++i) h[i] = (x[i] - mean) * r;
  for (int64_t i = 0; i < n; ++i) weight_sum[i] += g[i] * h[i];
  if constexpr (kCenter)
    for (int64_t i = 0; i < n; ++i) bias_sum[i] += g[i];
  T level = 0, along = 0;
  if (w) {
    if constexpr (kCenter) level = sum_over<T>(n, [&](int64_t i) HWY_ATTR { return g[i] * w[i]; }) / count;
    along = sum_over<T>(n, [&](int64_t i) HWY_ATTR { return g[i] * w[i] * h[i]; }) / count;
    for (int64_t i = 0; i < n; ++i) out[i] = (g[i] * w[i] - level - h[i] * along) * r;
  } else {
    if constexpr (kCenter) level = sum_over<T>(n, [&](int64_t i) HWY_ATTR { return g[i]; }) / count;
    along = sum_over<T>(n, [&](int64_t i) HWY_ATTR { return g[i] * h[i]; }) / count;
    for (int64_t i = 0; i < n; ++i) out[i] = (g[i] - level - h[i] * along) * r;
  }
}

template <class T, bool kCenter>
void backward(const Tensor& grad, const Tensor& input, int64_t n, const Tensor& weight, double eps,
              const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias) {
  const TensorImpl *gi = grad.impl(), *xi = input.impl(), *oi = grad_input.impl();
  const int64_t rows = xi->numel / n;
  const ConvertFn load = load_fn(xi->dtype), store = store_fn(xi->dtype);
  const T* w = weight.defined() ? reinterpret_cast<const T*>(weight.impl()->data()) : nullptr;
  T* weight_sum = reinterpret_cast<T*>(grad_weight.impl()->data());
  T* bias_sum = kCenter ? reinterpret_cast<T*>(grad_bias.impl()->data()) : nullptr;
  const int64_t row_bytes = n * static_cast<int64_t>(elementSize(xi->dtype));
  // As many stretches of rows as there are, whoever computes them, so that sums do not depend on the number of threads.
  const int64_t stretches = std::clamp<int64_t>(rows * n / 16384, 1, std::min<int64_t>(rows, 64));
  const int64_t per = kCenter ? 2 : 1;
  detail::Scratch sums(static_cast<size_t>(stretches * per * n) * sizeof(T));
  parallel_for(0, stretches, 1, [&](int64_t begin, int64_t end) {
    detail::Scratch room(static_cast<size_t>(4 * n) * sizeof(T));
    T *h = room.as<T>(), *wide_g = h + n, *wide_x = h + 2 * n, *wide_out = h + 3 * n;
    for (int64_t s = begin; s < end; ++s) {
      T* ws = sums.as<T>() + s * per * n;
      T* bs = ws + (kCenter ? n : 0);
      std::fill_n(ws, per * n, T(0));
      for (int64_t r = rows * s / stretches; r < rows * (s + 1) / stretches; ++r) {
        const char *g = gi->data() + r * row_bytes, *x = xi->data() + r * row_bytes;
        char* out = oi->data() + r * row_bytes;
        if (load) {
          load(g, wide_g, static_cast<size_t>(n));
          load(x, wide_x, static_cast<size_t>(n));
          backward_row<T, kCenter>(wide_g, wide_x, w, n, eps, wide_out, ws, bs, h);
          store(wide_out, out, static_cast<size_t>(n));
        } else {
          backward_row<T, kCenter>(reinterpret_cast<const T*>(g), reinterpret_cast<const T*>(x), w, n, eps,
                                   reinterpret_cast<T*>(out), ws, bs, h);
        }
      }
    }
  });
  std::fill_n(weight_sum, n, T(0));
  if constexpr (kCenter) std::fill_n(bias_sum, n, T(0));
  for (int64_t s = 0; s < stretches; ++s) {
    const T* ws = sums.as<T>() + s * per * n;
    for (int64_t i = 0; i < n; ++i) weight_sum[i] += ws[i];
    if constexpr (kCenter)
      for (int64_t i = 0; i < n; ++i) bias_sum[i] += ws[n + i];
  }
}

}  // namespace

void layer_norm_backward_any(const Tensor& grad, const Tensor& input, int64_t n, const Tensor& weight, double eps,
                             const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias) {
  if (input.scalar_type() == kDouble)
    backward<double, true>(grad, input, n, weight, eps, grad_input, grad_weight, grad_bias);
  else backward<float, true>(grad, input, n, weight, eps, grad_input, grad_weight, grad_bias);
}
void rms_norm_backward_any(const Tensor& grad, const Tensor& input, int64_t n, const Tensor& weight, double eps,
                           const Tensor& grad_input, const Tensor& grad_weight) {
  if (input.scalar_type() == kDouble)
    backward<double, false>(grad, input, n, weight, eps, grad_input, grad_weight, Tensor());
  else backward<float, false>(grad, input, n, weight, eps, grad_input, grad_weight, Tensor());
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {
namespace {

HWY_EXPORT(layer_norm_backward_any);
HWY_EXPORT(rms_norm_backward_any);

void layer_norm_backward_cpu(const Tensor& grad, const Tensor& input, int64_t n, const Tensor& weight, double eps,
                             const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias) {
  HWY_DYNAMIC_DISPATCH(layer_norm_backward_any)(grad, input, n, weight, eps, grad_input, grad_weight, grad_bias);
}
void rms_norm_backward_cpu(const Tensor& grad, const Tensor& input, int64_t n, const Tensor& weight, double eps,
                           const Tensor& grad_input, const Tensor& grad_weight) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_any)(grad, input, n, weight, eps, grad_input, grad_weight);
}

const KernelRegistration layer_norm_backward_registration(OpId::_layer_norm_backward, DeviceType::CPU,
                                                          &layer_norm_backward_cpu);
const KernelRegistration rms_norm_backward_registration(OpId::_rms_norm_backward, DeviceType::CPU,
                                                        &rms_norm_backward_cpu);

}  // namespace
}  // namespace facula
#endif
