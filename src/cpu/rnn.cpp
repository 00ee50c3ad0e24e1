// The CPU kernels of one direction of an LSTM or GRU layer. Samples do not know of each other, so every thread takes some of them through the whole sequence,
// without waiting for others: a product with the hidden weights and one pass over the gates per step. Compiled once per instruction set.
#include "cpu/rnn.h"

#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/matmul.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"
#include "cpu/small_gemm.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rnn.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/simd/elementary-inl.h"
#include "cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace {

template <class T>
T* data_of(const Tensor& t) {
  return t.defined() ? reinterpret_cast<T*>(t.impl()->data()) : nullptr;
}

// c = a b + beta c with row-major matrices.
template <class T>
void product(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, const T* b, T beta, T* c, int64_t c_row) {
  if constexpr (sizeof(T) == 8) gemm_f64(m, n, k, 1.0, a, a_row, 1, b, n, 1, beta, c, c_row);
  else small_gemm({m, n, k, a, a_row, 1, b, n, 1, c, c_row, 1.0f, beta});
}

template <class T>
HWY_INLINE Lane<T> sigmoid_of(Lane<T> x) {
  const Lane<T> one = splat<Lane<T>>(1.0);
  return one / (one + m::exp(-x));
}
template <class T>
HWY_INLINE Lane<T> tanh_of(Lane<T> x) {
  return m::tanh(x);
}

// `f(i)` for whole vectors of a row of n, the last of which may begin earlier than the one before ended: f writes each entry from inputs that it does not change.
template <class T, class F>
HWY_INLINE void over_vectors(int64_t n, const F& f) {
  constexpr int64_t kStep = static_cast<int64_t>(Lane<T>::kSize);
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) f(i);
  if (i < n && n >= kStep) f(n - kStep);
}

struct Shape {
  int64_t steps, batch, hidden;
  explicit Shape(const Tensor& output)
      : steps(output.impl()->sizes[0]), batch(output.impl()->sizes[1]), hidden(output.impl()->sizes[2]) {}
  // Samples that are worth a thread.
  int64_t grain() const {
    return std::max<int64_t>(1, std::min<int64_t>(8, 65536 / std::max<int64_t>(hidden * hidden, 1)));
  }
};

// One row of gates (activated in place in `gates`), from the sums in `sums`.
template <class T>
HWY_INLINE void lstm_row(const T* sums, int64_t n, const T* cell_before, T* gates, T* cell, T* out) {
  using L = Lane<T>;
  const auto step = [&](const T* in, int64_t stride, const T* before, T* act, int64_t act_stride, T* c_to, T* h_to)
                        HWY_ATTR {
                          const L i = sigmoid_of<T>(load(in)), f = sigmoid_of<T>(load(in + stride)),
                                  g = tanh_of<T>(load(in + 2 * stride)), o = sigmoid_of<T>(load(in + 3 * stride));
                          const L c = m::fma(f, load(before), i * g);
                          store(i, act);
                          store(f, act + act_stride);
                          store(g, act + 2 * act_stride);
                          store(o, act + 3 * act_stride);
                          store(c, c_to);
                          store(o * tanh_of<T>(c), h_to);
                        };
  constexpr int64_t kStep = static_cast<int64_t>(L::kSize);
  int64_t k = 0;
  for (; k + kStep <= n; k += kStep) step(sums + k, n, cell_before + k, gates + k, n, cell + k, out + k);
  if (k == n) return;
  // What is left goes through a small room of whole vectors.
  T in[4 * kStep] = {}, before[kStep] = {}, act[4 * kStep], c_to[kStep], h_to[kStep];
  const int64_t rest = n - k;
  for (int64_t q = 0; q < 4; ++q) std::copy_n(sums + q * n + k, rest, in + q * kStep);
  std::copy_n(cell_before + k, rest, before);
  step(in, kStep, before, act, kStep, c_to, h_to);
  for (int64_t q = 0; q < 4; ++q) std::copy_n(act + q * kStep, rest, gates + q * n + k);
  std::copy_n(c_to, rest, cell + k);
  std::copy_n(h_to, rest, out + k);
}

template <class T>
void lstm(const Tensor& gates_input, const Tensor& w_turned, const Tensor& hx, const Tensor& cx, bool reverse,
          const Tensor& output, const Tensor& cells, const Tensor& gates) {
  const Shape s(output);
  const int64_t n = s.hidden, wide = 4 * n;
  const T *x = data_of<T>(gates_input), *w = data_of<T>(w_turned), *h0 = data_of<T>(hx), *c0 = data_of<T>(cx);
  T *h = data_of<T>(output), *c = data_of<T>(cells), *a = data_of<T>(gates);
  parallel_for(0, s.batch, s.grain(), [&](int64_t begin, int64_t end) {
    const int64_t rows = end - begin;
    detail::Scratch scratch(static_cast<size_t>(rows * wide) * sizeof(T));
    T* sums = scratch.as<T>();
    const T *h_before = h0 + begin * n, *c_before = c0 + begin * n;
    for (int64_t t = 0; t < s.steps; ++t) {
      const int64_t at = (reverse ? s.steps - 1 - t : t) * s.batch + begin;
      std::copy_n(x + at * wide, rows * wide, sums);
      product<T>(rows, wide, n, h_before, n, w, T(1), sums, wide);
      for (int64_t r = 0; r < rows; ++r)
        lstm_row<T>(sums + r * wide, n, c_before + r * n, a + (at + r) * wide, c + (at + r) * n, h + (at + r) * n);
      h_before = h + at * n;
      c_before = c + at * n;
    }
  });
}

template <class T>
void lstm_backward(const Tensor& grad_output, const Tensor& grad_cells, const Tensor& w_hh, const Tensor& cx,
                   bool reverse, const Tensor& cells, const Tensor& gates, const Tensor& grad_gates,
                   const Tensor& grad_hx, const Tensor& grad_cx) {
  const Shape s(cells);
  const int64_t n = s.hidden, wide = 4 * n;
  const T *gh = data_of<T>(grad_output), *gc = data_of<T>(grad_cells), *w = data_of<T>(w_hh), *c0 = data_of<T>(cx);
  const T *c = data_of<T>(cells), *a = data_of<T>(gates);
  T *out = data_of<T>(grad_gates), *dh_all = data_of<T>(grad_hx), *dc_all = data_of<T>(grad_cx);
  parallel_for(0, s.batch, s.grain(), [&](int64_t begin, int64_t end) {
    const int64_t rows = end - begin;
    T *dh = dh_all + begin * n, *dc = dc_all + begin * n;  // what flows back to the step before
    std::fill_n(dh, rows * n, T(0));
    std::fill_n(dc, rows * n, T(0));
    detail::Scratch scratch(static_cast<size_t>(n) * sizeof(T));
    T* turned = scratch.as<T>();  // tanh of the cell states
    for (int64_t t = s.steps; t-- > 0;) {
      const int64_t place = reverse ? s.steps - 1 - t : t, at = place * s.batch + begin;
      const int64_t earlier = (reverse ? place + 1 : place - 1) * s.batch + begin;
      for (int64_t r = 0; r < rows; ++r) {
        const T *i = a + (at + r) * wide, *f = i + n, *g = i + 2 * n, *o = i + 3 * n, *cell = c + (at + r) * n;
        const T* before = t == 0 ? c0 + (begin + r) * n : c + (earlier + r) * n;
        T *di = out + (at + r) * wide, *df = di + n, *dg = di + 2 * n, *d_o = di + 3 * n, *dhr = dh + r * n,
          *dcr = dc + r * n;
        const T *ghr = gh + (at + r) * n, *gcr = gc ? gc + (at + r) * n : nullptr;
        if (n >= static_cast<int64_t>(Lane<T>::kSize)) {
          over_vectors<T>(n, [&](int64_t k) HWY_ATTR { store(tanh_of<T>(load(cell + k)), turned + k); });
        } else {
          T room[Lane<T>::kSize] = {};
          std::copy_n(cell, n, room);
          store(tanh_of<T>(load(static_cast<const T*>(room))), room);
          std::copy_n(room, n, turned);
        }
        for (int64_t k = 0; k < n; ++k) {
          const T d = dhr[k] + ghr[k], y = turned[k];
          const T dcell = dcr[k] + d * o[k] * (T(1) - y * y) + (gcr ? gcr[k] : T(0));
          d_o[k] = d * y * o[k] * (T(1) - o[k]);
          di[k] = dcell * g[k] * i[k] * (T(1) - i[k]);
          df[k] = dcell * before[k] * f[k] * (T(1) - f[k]);
          dg[k] = dcell * i[k] * (T(1) - g[k] * g[k]);
          dcr[k] = dcell * f[k];
        }
      }
      product<T>(rows, n, wide, out + at * wide, wide, w, T(0), dh, n);
    }
  });
}

// sums: what the hidden state adds to the three gates; x: what the input adds.
template <class T>
HWY_INLINE void gru_row(const T* x, const T* sums, int64_t n, const T* before, T* gates, T* out) {
  using L = Lane<T>;
  const auto step = [&](const T* in, const T* sum, int64_t stride, const T* h, T* act, int64_t act_stride,
                        T* to) HWY_ATTR {
    const L r = sigmoid_of<T>(load(in) + load(sum)), z = sigmoid_of<T>(load(in + stride) + load(sum + stride)),
            part = load(sum + 2 * stride);
    const L fresh = tanh_of<T>(m::fma(r, part, load(in + 2 * stride)));
    store(r, act);
    store(z, act + act_stride);
    store(fresh, act + 2 * act_stride);
    store(part, act + 3 * act_stride);
    store(m::fma(z, load(h) - fresh, fresh), to);
  };
  constexpr int64_t kStep = static_cast<int64_t>(L::kSize);
  int64_t k = 0;
  for (; k + kStep <= n; k += kStep) step(x + k, sums + k, n, before + k, gates + k, n, out + k);
  if (k == n) return;
  T in[3 * kStep] = {}, sum[3 * kStep] = {}, h[kStep] = {}, act[4 * kStep], to[kStep];
  const int64_t rest = n - k;
  for (int64_t q = 0; q < 3; ++q) {
    std::copy_n(x + q * n + k, rest, in + q * kStep);
    std::copy_n(sums + q * n + k, rest, sum + q * kStep);
  }
  std::copy_n(before + k, rest, h);
  step(in, sum, kStep, h, act, kStep, to);
  for (int64_t q = 0; q < 4; ++q) std::copy_n(act + q * kStep, rest, gates + q * n + k);
  std::copy_n(to, rest, out + k);
}

template <class T>
void gru(const Tensor& gates_input, const Tensor& w_turned, const Tensor& b_hh, const Tensor& hx, bool reverse,
         const Tensor& output, const Tensor& gates) {
  const Shape s(output);
  const int64_t n = s.hidden, wide = 3 * n;
  const T *x = data_of<T>(gates_input), *w = data_of<T>(w_turned), *bias = data_of<T>(b_hh), *h0 = data_of<T>(hx);
  T *h = data_of<T>(output), *a = data_of<T>(gates);
  parallel_for(0, s.batch, s.grain(), [&](int64_t begin, int64_t end) {
    const int64_t rows = end - begin;
    detail::Scratch scratch(static_cast<size_t>(rows * wide) * sizeof(T));
    T* sums = scratch.as<T>();
    const T* before = h0 + begin * n;
    for (int64_t t = 0; t < s.steps; ++t) {
      const int64_t at = (reverse ? s.steps - 1 - t : t) * s.batch + begin;
      if (bias)
        for (int64_t r = 0; r < rows; ++r) std::copy_n(bias, wide, sums + r * wide);
      product<T>(rows, wide, n, before, n, w, bias ? T(1) : T(0), sums, wide);
      for (int64_t r = 0; r < rows; ++r)
        gru_row<T>(x + (at + r) * wide, sums + r * wide, n, before + r * n, a + (at + r) * 4 * n, h + (at + r) * n);
      before = h + at * n;
    }
  });
}

template <class T>
void gru_backward(const Tensor& grad_output, const Tensor& w_hh, const Tensor& hx, bool reverse, const Tensor& output,
                  const Tensor& gates, const Tensor& grad_gates, const Tensor& grad_hidden, const Tensor& grad_hx) {
  const Shape s(output);
  const int64_t n = s.hidden, wide = 3 * n;
  const T *gh = data_of<T>(grad_output), *w = data_of<T>(w_hh), *h0 = data_of<T>(hx), *h = data_of<T>(output),
          *a = data_of<T>(gates);
  T *to_input = data_of<T>(grad_gates), *to_hidden = data_of<T>(grad_hidden), *dh_all = data_of<T>(grad_hx);
  parallel_for(0, s.batch, s.grain(), [&](int64_t begin, int64_t end) {
    const int64_t rows = end - begin;
    T* dh = dh_all + begin * n;
    std::fill_n(dh, rows * n, T(0));
    for (int64_t t = s.steps; t-- > 0;) {
      const int64_t place = reverse ? s.steps - 1 - t : t, at = place * s.batch + begin;
      const int64_t earlier = (reverse ? place + 1 : place - 1) * s.batch + begin;
      for (int64_t row = 0; row < rows; ++row) {
        const T *r = a + (at + row) * 4 * n, *z = r + n, *fresh = r + 2 * n, *part = r + 3 * n;
        const T* before = t == 0 ? h0 + (begin + row) * n : h + (earlier + row) * n;
        T *xr = to_input + (at + row) * wide, *xz = xr + n, *xn = xr + 2 * n, *hr = to_hidden + (at + row) * wide;
        T* dhr = dh + row * n;
        const T* ghr = gh + (at + row) * n;
        for (int64_t k = 0; k < n; ++k) {
          const T d = dhr[k] + ghr[k];
          const T dn = d * (T(1) - z[k]) * (T(1) - fresh[k] * fresh[k]);
          const T dz = d * (before[k] - fresh[k]) * z[k] * (T(1) - z[k]);
          const T dr = dn * part[k] * r[k] * (T(1) - r[k]);
          xr[k] = hr[k] = dr;
          xz[k] = hr[n + k] = dz;
          xn[k] = dn;
          hr[2 * n + k] = dn * r[k];
          dhr[k] = d * z[k];
        }
      }
      product<T>(rows, n, wide, to_hidden + at * wide, wide, w, T(1), dh, n);
    }
  });
}

}  // namespace

void lstm_any(const Tensor& gates_input, const Tensor& w_turned, const Tensor& hx, const Tensor& cx, bool reverse,
              const Tensor& output, const Tensor& cells, const Tensor& gates) {
  if (output.scalar_type() == kDouble) lstm<double>(gates_input, w_turned, hx, cx, reverse, output, cells, gates);
  else lstm<float>(gates_input, w_turned, hx, cx, reverse, output, cells, gates);
}
void lstm_backward_any(const Tensor& grad_output, const Tensor& grad_cells, const Tensor& w_hh, const Tensor& cx,
                       bool reverse, const Tensor& cells, const Tensor& gates, const Tensor& grad_gates,
                       const Tensor& grad_hx, const Tensor& grad_cx) {
  if (cells.scalar_type() == kDouble)
    lstm_backward<double>(grad_output, grad_cells, w_hh, cx, reverse, cells, gates, grad_gates, grad_hx, grad_cx);
  else lstm_backward<float>(grad_output, grad_cells, w_hh, cx, reverse, cells, gates, grad_gates, grad_hx, grad_cx);
}
void gru_any(const Tensor& gates_input, const Tensor& w_turned, const Tensor& b_hh, const Tensor& hx, bool reverse,
             const Tensor& output, const Tensor& gates) {
  if (output.scalar_type() == kDouble) gru<double>(gates_input, w_turned, b_hh, hx, reverse, output, gates);
  else gru<float>(gates_input, w_turned, b_hh, hx, reverse, output, gates);
}
void gru_backward_any(const Tensor& grad_output, const Tensor& w_hh, const Tensor& hx, bool reverse,
                      const Tensor& output, const Tensor& gates, const Tensor& grad_gates, const Tensor& grad_hidden,
                      const Tensor& grad_hx) {
  if (output.scalar_type() == kDouble)
    gru_backward<double>(grad_output, w_hh, hx, reverse, output, gates, grad_gates, grad_hidden, grad_hx);
  else gru_backward<float>(grad_output, w_hh, hx, reverse, output, gates, grad_gates, grad_hidden, grad_hx);
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {
namespace {

HWY_EXPORT(lstm_any);
HWY_EXPORT(lstm_backward_any);
HWY_EXPORT(gru_any);
HWY_EXPORT(gru_backward_any);

void lstm_cpu(const Tensor& gates_input, const Tensor& w_turned, const Tensor& hx, const Tensor& cx, bool reverse,
              const Tensor& output, const Tensor& cells, const Tensor& gates) {
  HWY_DYNAMIC_DISPATCH(lstm_any)(gates_input, w_turned, hx, cx, reverse, output, cells, gates);
}
void lstm_backward_cpu(const Tensor& grad_output, const Tensor& grad_cells, const Tensor& w_hh, const Tensor& cx,
                       bool reverse, const Tensor& cells, const Tensor& gates, const Tensor& grad_gates,
                       const Tensor& grad_hx, const Tensor& grad_cx) {
  HWY_DYNAMIC_DISPATCH(lstm_backward_any)
  (grad_output, grad_cells, w_hh, cx, reverse, cells, gates, grad_gates, grad_hx, grad_cx);
}
void gru_cpu(const Tensor& gates_input, const Tensor& w_turned, const Tensor& b_hh, const Tensor& hx, bool reverse,
             const Tensor& output, const Tensor& gates) {
  HWY_DYNAMIC_DISPATCH(gru_any)(gates_input, w_turned, b_hh, hx, reverse, output, gates);
}
void gru_backward_cpu(const Tensor& grad_output, const Tensor& w_hh, const Tensor& hx, bool reverse,
                      const Tensor& output, const Tensor& gates, const Tensor& grad_gates, const Tensor& grad_hidden,
                      const Tensor& grad_hx) {
  HWY_DYNAMIC_DISPATCH(gru_backward_any)
  (grad_output, w_hh, hx, reverse, output, gates, grad_gates, grad_hidden, grad_hx);
}

const KernelRegistration lstm_registration(OpId::_lstm_layer, DeviceType::CPU, &lstm_cpu);
const KernelRegistration lstm_backward_registration(OpId::_lstm_layer_backward, DeviceType::CPU, &lstm_backward_cpu);
const KernelRegistration gru_registration(OpId::_gru_layer, DeviceType::CPU, &gru_cpu);
const KernelRegistration gru_backward_registration(OpId::_gru_layer_backward, DeviceType::CPU, &gru_backward_cpu);

}  // namespace
}  // namespace facula
#endif
