// The CPU kernels of cross entropy and its gradient: they walk the rows of a contiguous matrix with threads.
#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/class_labels.h"
#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"
#include "cpu/simd/rowwise_ops.h"

#include <facula/core/error.h>
#include <facula/reduction.h>
#include <facula/tensor.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace facula {
namespace {

// Entries that are worth a thread.
constexpr int64_t kGrain = 8192;

// Rows of a contiguous tensor of any float dtype, brought into the compute type on their way.
template <class T>
class Rows {
 public:
  Rows(const Tensor& t, int64_t n)
      : data_(t.impl()->data()),
        bytes_(n * static_cast<int64_t>(elementSize(t.impl()->dtype))),
        load_(load_fn(t.impl()->dtype)),
        store_(store_fn(t.impl()->dtype)),
        n_(static_cast<size_t>(n)) {}
  bool converts() const { return load_ != nullptr; }
  const T* read(int64_t row, T* room) const {
    const char* at = data_ + row * bytes_;
    if (!load_) return reinterpret_cast<const T*>(at);
    load_(at, room, n_);
    return room;
  }
  // Where to compute a row that `write` then puts into its place.
  T* begin(int64_t row, T* room) const { return store_ ? room : reinterpret_cast<T*>(data_ + row * bytes_); }
  void write(int64_t row, const T* computed) const {
    if (store_) store_(computed, data_ + row * bytes_, n_);
  }

 private:
  char* data_;
  int64_t bytes_;
  ConvertFn load_, store_;
  size_t n_;
};

// Sums run over 16 lanes, whatever the width of vectors.
template <class T, class F>
T sum_over(int64_t n, const F& term) {
  T lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int64_t k = 0; k < 16; ++k) lanes[k] += term(i + k);
  for (int64_t k = 0; i < n; ++i, ++k) lanes[k] += term(i);
  for (int64_t width = 8; width > 0; width /= 2)
    for (int64_t k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  return lanes[0];
}

// out = exp(in - shift) scale.
template <class T>
void scaled_exp(const T* in, T* out, int64_t n, T shift, T scale) {
  const T state[2] = {shift, T(1) / scale};
  cpu::row_ops(sizeof(T) == 8 ? CType::F64 : CType::F32).finish_softmax(in, out, n, state);
}

// What every row of a cross entropy needs to know. Weights are in the compute type.
template <class T>
struct Entropy {
  int64_t classes, ignored;
  const int64_t* targets;
  const T* weights;  // null: all one
  T smoothing, all_weights;

  Entropy(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t ignore_index, double label_smoothing)
      : classes(self.impl()->sizes[1]),
        ignored(ignore_index),
        targets(reinterpret_cast<const int64_t*>(target.impl()->data())),
        weights(weight.defined() ? reinterpret_cast<const T*>(weight.impl()->data()) : nullptr),
        smoothing(static_cast<T>(label_smoothing)),
        all_weights(weights ? sum_over<T>(classes, [&](int64_t i) { return weights[i]; }) : static_cast<T>(classes)) {}
  T weight_of(int64_t label) const { return weights ? weights[label] : T(1); }
};

// A label that is no class, told by whichever row finds it.
class BadLabel {
 public:
  bool is(int64_t label, int64_t classes) {
    if (label >= 0 && label < classes) return false;
    found_.store(label);
    any_.store(true);
    return true;
  }
  void check(int64_t classes) const {
    if (any_.load()) raise_no_class("cross_entropy_loss", found_.load(), classes);
  }

 private:
  std::atomic<int64_t> found_{0};
  std::atomic<bool> any_{false};
};

template <class T>
void cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                   int64_t ignore_index, double smoothing, const Tensor& loss, const Tensor& logsumexp,
                   const Tensor& total) {
  const Entropy<T> e(self, target, weight, ignore_index, smoothing);
  const int64_t rows = self.impl()->sizes[0], n = e.classes;
  const Rows<T> x(self, n);
  T* lse = reinterpret_cast<T*>(logsumexp.impl()->data());
  const cpu::RowOps& ops = cpu::row_ops(sizeof(T) == 8 ? CType::F64 : CType::F32);
  detail::Scratch losses(static_cast<size_t>(rows) * sizeof(T));
  T* each = losses.as<T>();
  BadLabel bad;
  parallel_rows(rows, n, kGrain, [&](int64_t begin, int64_t end) {
    detail::Scratch scratch(x.converts() ? static_cast<size_t>(n) * sizeof(T) : 0);
    for (int64_t r = begin; r < end; ++r) {
      const T* row = x.read(r, scratch.as<T>());
      T state[2];
      ops.state_of(row, n, state);
      const T sum = state[0] + std::log(state[1]);
      lse[r] = sum;
      const int64_t label = e.targets[r];
      if (label == e.ignored) {
        each[r] = 0;
        continue;
      }
      if (bad.is(label, n)) return;
      each[r] = e.weight_of(label) * (sum - row[label]) * (T(1) - e.smoothing);
      if (e.smoothing != 0) {
        const T weighted = e.weights ? sum_over<T>(n, [&](int64_t i) { return row[i] * e.weights[i]; })
                                     : sum_over<T>(n, [&](int64_t i) { return row[i]; });
        each[r] += e.smoothing / static_cast<T>(n) * (e.all_weights * sum - weighted);
      }
    }
  });
  bad.check(n);
  // Sums run in double, one after the other: the same result with any number of threads.
  double sum = 0, counted = 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (e.targets[r] == e.ignored) continue;
    sum += static_cast<double>(each[r]);
    counted += static_cast<double>(e.weight_of(e.targets[r]));
  }
  *reinterpret_cast<T*>(total.impl()->data()) = static_cast<T>(counted);
  if (reduction == Reduction::None) {
    const Rows<T> out(loss, rows);
    T* to = out.begin(0, each);
    if (to != each) std::copy(each, each + rows, to);
    out.write(0, each);
    return;
  }
  const T result = static_cast<T>(reduction == Reduction::Mean ? sum / counted : sum);
  const Rows<T> out(loss, 1);
  T one = result;
  *out.begin(0, &one) = result;
  out.write(0, &one);
}

void cross_entropy_cpu(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                       int64_t ignore_index, double smoothing, const Tensor& loss, const Tensor& logsumexp,
                       const Tensor& total) {
  if (self.scalar_type() == kDouble)
    cross_entropy<double>(self, target, weight, reduction, ignore_index, smoothing, loss, logsumexp, total);
  else cross_entropy<float>(self, target, weight, reduction, ignore_index, smoothing, loss, logsumexp, total);
}

template <class T>
void cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                            const Tensor& logsumexp, const Tensor& total, int64_t reduction, int64_t ignore_index,
                            double smoothing, const Tensor& result) {
  const Entropy<T> e(self, target, weight, ignore_index, smoothing);
  const int64_t rows = self.impl()->sizes[0], n = e.classes;
  const Rows<T> x(self, n), out(result, n);
  const T* lse = reinterpret_cast<const T*>(logsumexp.impl()->data());
  const int64_t grads = grad.impl()->numel;
  detail::Scratch wide(static_cast<size_t>(grads) * sizeof(T));
  const T* g = Rows<T>(grad, grads).read(0, wide.as<T>());
  const T by = reduction == Reduction::Mean ? *reinterpret_cast<const T*>(total.impl()->data()) : T(1);
  BadLabel bad;  // the targets may have been written to since the loss was computed
  parallel_rows(rows, n, kGrain, [&](int64_t begin, int64_t end) {
    detail::Scratch scratch(x.converts() ? static_cast<size_t>(2 * n) * sizeof(T) : 0);
    T* room = scratch.as<T>();
    for (int64_t r = begin; r < end; ++r) {
      T* to = out.begin(r, room + (x.converts() ? n : 0));
      const int64_t label = e.targets[r];
      if (label != e.ignored && bad.is(label, n)) return;
      const T scale = label == e.ignored ? T(0) : g[reduction == Reduction::None ? r : 0] / by;
      if (label == e.ignored || scale == 0) {
        std::fill_n(to, n, T(0));
        out.write(r, to);
        continue;
      }
      const T* row = x.read(r, room);
      const T hit = scale * e.weight_of(label) * (T(1) - e.smoothing), spread = scale * e.smoothing / static_cast<T>(n);
      const T all = hit + spread * e.all_weights;
      if (all == 0) std::fill_n(to, n, T(0));
      else scaled_exp<T>(row, to, n, lse[r], all);
      if (spread != 0) {
        if (e.weights)
          for (int64_t i = 0; i < n; ++i) to[i] -= spread * e.weights[i];
        else
          for (int64_t i = 0; i < n; ++i) to[i] -= spread;
      }
      to[label] -= hit;
      out.write(r, to);
    }
  });
  bad.check(n);
}

void cross_entropy_backward_cpu(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                                const Tensor& logsumexp, const Tensor& total, int64_t reduction, int64_t ignore_index,
                                double smoothing, const Tensor& result) {
  if (self.scalar_type() == kDouble)
    cross_entropy_backward<double>(grad, self, target, weight, logsumexp, total, reduction, ignore_index, smoothing,
                                   result);
  else
    cross_entropy_backward<float>(grad, self, target, weight, logsumexp, total, reduction, ignore_index, smoothing,
                                  result);
}

const KernelRegistration cross_entropy_registration(OpId::_cross_entropy, DeviceType::CPU, &cross_entropy_cpu);
const KernelRegistration cross_entropy_backward_registration(OpId::_cross_entropy_backward, DeviceType::CPU,
                                                             &cross_entropy_backward_cpu);

}  // namespace
}  // namespace facula
