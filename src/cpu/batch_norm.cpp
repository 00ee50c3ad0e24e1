// The CPU kernels of batch norm. Planes of contiguous tensors go channel by channel, channels-last ones in stretches of rows; sums are those of short pieces,
// joined in a fixed order, so that they depend neither on threads nor on the width of vectors. Compiled once per instruction set.
#include "cpu/batch_norm.h"

#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/batch_norm.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/simd/sum_over-inl.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kPiece = 4096;  // entries that are added up before sums of sums begin

struct Shape {
  int64_t batch, channels, inner;  // inner: places of a sample
  bool last;                       // channels innermost
  explicit Shape(const Tensor& t) {
    const TensorImpl& x = *t.impl();
    batch = x.sizes[0];
    channels = x.sizes[1];
    inner = x.numel / std::max<int64_t>(batch * channels, 1);
    last = !x.contiguous;
  }
  // Channels-last: rows of channels, in stretches that hold about kPiece entries each and are at most 256 in number.
  int64_t rows() const { return batch * inner; }
  int64_t stretches() const {
    return std::clamp<int64_t>(rows() * channels / (4 * kPiece), 1, std::min<int64_t>(rows(), 256));
  }
};

// Mean and sum of squared deviations of n entries, joined with those of others before (Chan, Golub and LeVeque).
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void join(double n, double m, double s) {
    if (n == 0) return;
    const double all = count + n, apart = m - mean;
    mean += apart * n / all;
    squares += s + apart * apart * count * n / all;
    count = all;
  }
};

template <class T>
void statistics_of_planes(const Shape& s, const T* x, double eps, T* mean, T* variance, T* invstd) {
  parallel_for(0, s.channels, std::max<int64_t>(1, 16384 / (s.batch * s.inner)), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      Moments all;
      for (int64_t n = 0; n < s.batch; ++n) {
        const T* plane = x + (n * s.channels + c) * s.inner;
        for (int64_t first = 0; first < s.inner; first += kPiece) {
          const int64_t count = std::min(kPiece, s.inner - first);
          const T* p = plane + first;
          const T m = sum_over<T>(count, [&](int64_t i) HWY_ATTR { return p[i]; }) / static_cast<T>(count);
          const T q = sum_over<T>(count, [&](int64_t i) HWY_ATTR { return (p[i] - m) * (p[i] - m); });
          all.join(static_cast<double>(count), static_cast<double>(m), static_cast<double>(q));
        }
      }
      const double var = all.squares / all.count;
      mean[c] = static_cast<T>(all.mean);
      variance[c] = static_cast<T>(var);
      invstd[c] = static_cast<T>(1 / std::sqrt(var + eps));
    }
  });
}

template <class T>
void statistics_of_rows(const Shape& s, const T* x, double eps, T* mean, T* variance, T* invstd) {
  const int64_t c = s.channels, stretches = s.stretches(), rows = s.rows();
  detail::Scratch scratch(static_cast<size_t>(stretches * 2 * c) * sizeof(T));
  T* parts = scratch.as<T>();
  parallel_for(0, stretches, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t first = rows * k / stretches, past = rows * (k + 1) / stretches;
      T *sum = parts + k * 2 * c, *squares = sum + c;
      std::fill_n(sum, 2 * c, T(0));
      for (int64_t r = first; r < past; ++r)
        for (int64_t i = 0; i < c; ++i) sum[i] += x[r * c + i];
      const T by = T(1) / static_cast<T>(past - first);
      for (int64_t i = 0; i < c; ++i) sum[i] *= by;
      for (int64_t r = first; r < past; ++r)
        for (int64_t i = 0; i < c; ++i) squares[i] += (x[r * c + i] - sum[i]) * (x[r * c + i] - sum[i]);
    }
  });
  for (int64_t i = 0; i < c; ++i) {
    Moments all;
    for (int64_t k = 0; k < stretches; ++k) {
      const int64_t count = rows * (k + 1) / stretches - rows * k / stretches;
      all.join(static_cast<double>(count), static_cast<double>(parts[k * 2 * c + i]),
               static_cast<double>(parts[k * 2 * c + c + i]));
    }
    const double var = all.squares / all.count;
    mean[i] = static_cast<T>(all.mean);
    variance[i] = static_cast<T>(var);
    invstd[i] = static_cast<T>(1 / std::sqrt(var + eps));
  }
}

// out = (x - shift) scale + add, with numbers of the channel.
template <class T>
void apply(const Shape& s, const T* x, const T* shift, const T* scale, const T* add, T* out) {
  if (s.last) {
    const int64_t c = s.channels;
    return parallel_for(0, s.rows(), std::max<int64_t>(1, 16384 / c), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t i = 0; i < c; ++i) out[r * c + i] = (x[r * c + i] - shift[i]) * scale[i] + add[i];
    });
  }
  parallel_for(0, s.batch * s.channels, std::max<int64_t>(1, 16384 / s.inner), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t c = p % s.channels;
      const T m = shift[c], w = scale[c], b = add[c];
      const T* from = x + p * s.inner;
      T* to = out + p * s.inner;
      for (int64_t i = 0; i < s.inner; ++i) to[i] = (from[i] - m) * w + b;
    }
  });
}

template <class T>
T* data_of(const Tensor& t) {
  return t.defined() ? reinterpret_cast<T*>(t.impl()->data()) : nullptr;
}

// running = (1 - momentum) running + momentum factor now
template <class T>
void move_running(T* running, const T* now, double factor, double momentum, int64_t channels) {
  if (!running) return;
  for (int64_t c = 0; c < channels; ++c)
    running[c] = static_cast<T>((1 - momentum) * static_cast<double>(running[c]) +
                                momentum * (factor * static_cast<double>(now[c])));
}

template <class T>
void forward(const Tensor& input, const Tensor& weight, const Tensor& bias, bool training, double eps,
             const Tensor& mean, const Tensor& invstd, const RunningStatistics& running, const Tensor& output) {
  const Shape s(input);
  const T *x = data_of<T>(input), *w = data_of<T>(weight), *b = data_of<T>(bias);
  T *m = data_of<T>(mean), *r = data_of<T>(invstd);
  detail::Scratch scratch(static_cast<size_t>(2 * s.channels) * sizeof(T));
  T *scale = scratch.as<T>(), *add = scale + s.channels;
  if (training) {
    T* variance = add;
    if (s.last) statistics_of_rows<T>(s, x, eps, m, variance, r);
    else statistics_of_planes<T>(s, x, eps, m, variance, r);
    const auto n = static_cast<double>(s.rows());
    move_running<T>(data_of<T>(running.mean), m, 1, running.momentum, s.channels);
    move_running<T>(data_of<T>(running.variance), variance, n / (n - 1), running.momentum, s.channels);
  }
  for (int64_t c = 0; c < s.channels; ++c) {
    scale[c] = w ? r[c] * w[c] : r[c];
    add[c] = b ? b[c] : T(0);
  }
  apply<T>(s, x, m, scale, add, data_of<T>(output));
}

// Sums over each channel of g and of g (x - mean).
template <class T>
void gradient_sums(const Shape& s, const T* g, const T* x, const T* mean, double* sum, double* along) {
  if (s.last) {
    const int64_t c = s.channels, stretches = s.stretches(), rows = s.rows();
    detail::Scratch scratch(static_cast<size_t>(stretches * 2 * c) * sizeof(T));
    T* parts = scratch.as<T>();
    parallel_for(0, stretches, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        T *first = parts + k * 2 * c, *second = first + c;
        std::fill_n(first, 2 * c, T(0));
        for (int64_t r = rows * k / stretches; r < rows * (k + 1) / stretches; ++r) {
          const T *gr = g + r * c, *xr = x + r * c;
          for (int64_t i = 0; i < c; ++i) {
            first[i] += gr[i];
            second[i] += gr[i] * (xr[i] - mean[i]);
          }
        }
      }
    });
    for (int64_t i = 0; i < c; ++i) {
      sum[i] = along[i] = 0;
      for (int64_t k = 0; k < stretches; ++k) {
        sum[i] += static_cast<double>(parts[k * 2 * c + i]);
        along[i] += static_cast<double>(parts[k * 2 * c + c + i]);
      }
    }
    return;
  }
  parallel_for(0, s.channels, std::max<int64_t>(1, 16384 / (s.batch * s.inner)), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double a = 0, b = 0;
      const T m = mean[c];
      for (int64_t n = 0; n < s.batch; ++n) {
        const int64_t at = (n * s.channels + c) * s.inner;
        for (int64_t first = 0; first < s.inner; first += kPiece) {
          const int64_t count = std::min(kPiece, s.inner - first);
          const T *gp = g + at + first, *xp = x + at + first;
          a += static_cast<double>(sum_over<T>(count, [&](int64_t i) HWY_ATTR { return gp[i]; }));
          b += static_cast<double>(sum_over<T>(count, [&](int64_t i) HWY_ATTR { return gp[i] * (xp[i] - m); }));
        }
      }
      sum[c] = a;
      along[c] = b;
    }
  });
}

template <class T>
void backward(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& mean, const Tensor& invstd,
              bool training, const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias) {
  const Shape s(input);
  const T *g = data_of<T>(grad), *x = data_of<T>(input), *w = data_of<T>(weight), *m = data_of<T>(mean),
          *r = data_of<T>(invstd);
  T* out = data_of<T>(grad_input);
  detail::Scratch scratch(static_cast<size_t>(s.channels) * (2 * sizeof(double) + 3 * sizeof(T)));
  double *sum = scratch.as<double>(), *along = sum + s.channels;
  T *scale = reinterpret_cast<T*>(along + s.channels), *tilt = scale + s.channels, *level = tilt + s.channels;
  gradient_sums<T>(s, g, x, m, sum, along);
  const double count = static_cast<double>(s.batch * s.inner);
  for (int64_t c = 0; c < s.channels; ++c) {
    const double inv = static_cast<double>(r[c]);
    data_of<T>(grad_weight)[c] = static_cast<T>(along[c] * inv);
    data_of<T>(grad_bias)[c] = static_cast<T>(sum[c]);
    const double k = w ? inv * static_cast<double>(w[c]) : inv;
    scale[c] = static_cast<T>(k);
    tilt[c] = training ? static_cast<T>(k * along[c] * inv * inv / count) : T(0);
    level[c] = training ? static_cast<T>(k * sum[c] / count) : T(0);
  }
  if (s.last) {
    const int64_t c = s.channels;
    return parallel_for(0, s.rows(), std::max<int64_t>(1, 16384 / c), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        for (int64_t i = 0; i < c; ++i)
          out[row * c + i] = g[row * c + i] * scale[i] - level[i] - (x[row * c + i] - m[i]) * tilt[i];
    });
  }
  parallel_for(0, s.batch * s.channels, std::max<int64_t>(1, 16384 / s.inner), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t c = p % s.channels, at = p * s.inner;
      const T k = scale[c], a = tilt[c], l = level[c], mid = m[c];
      for (int64_t i = at; i < at + s.inner; ++i) out[i] = g[i] * k - l - (x[i] - mid) * a;
    }
  });
}

}  // namespace

void batch_norm_any(const Tensor& input, const Tensor& weight, const Tensor& bias, bool training, double eps,
                    const Tensor& mean, const Tensor& invstd, const RunningStatistics& running, const Tensor& output) {
  if (input.scalar_type() == kDouble)
    forward<double>(input, weight, bias, training, eps, mean, invstd, running, output);
  else forward<float>(input, weight, bias, training, eps, mean, invstd, running, output);
}
void batch_norm_backward_any(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& mean,
                             const Tensor& invstd, bool training, const Tensor& grad_input, const Tensor& grad_weight,
                             const Tensor& grad_bias) {
  if (input.scalar_type() == kDouble)
    backward<double>(grad, input, weight, mean, invstd, training, grad_input, grad_weight, grad_bias);
  else backward<float>(grad, input, weight, mean, invstd, training, grad_input, grad_weight, grad_bias);
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {
namespace {

HWY_EXPORT(batch_norm_any);
HWY_EXPORT(batch_norm_backward_any);

void batch_norm_cpu(const Tensor& input, const Tensor& weight, const Tensor& bias, bool training, double eps,
                    const Tensor& mean, const Tensor& invstd, const RunningStatistics& running, const Tensor& output) {
  HWY_DYNAMIC_DISPATCH(batch_norm_any)(input, weight, bias, training, eps, mean, invstd, running, output);
}
void batch_norm_backward_cpu(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& mean,
                             const Tensor& invstd, bool training, const Tensor& grad_input, const Tensor& grad_weight,
                             const Tensor& grad_bias) {
  HWY_DYNAMIC_DISPATCH(batch_norm_backward_any)
  (grad, input, weight, mean, invstd, training, grad_input, grad_weight, grad_bias);
}

const KernelRegistration batch_norm_registration(OpId::native_batch_norm, DeviceType::CPU, &batch_norm_cpu);
const KernelRegistration batch_norm_backward_registration(OpId::_batch_norm_backward, DeviceType::CPU,
                                                          &batch_norm_backward_cpu);

}  // namespace
}  // namespace facula
#endif
