// The CPU kernels of pooling. Loops run along rows of the output, or along channels where these are innermost, so that compilers vectorise them; they are
// compiled once per instruction set.
#include "cpu/pool.h"

#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pool.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace {

// best = max(best, x) with the place of what was taken. NaN wins, and stays.
template <class T>
HWY_INLINE void take_larger(const T* x, int64_t step, int64_t place, int64_t place_step, T* best, int32_t* at,
                            int64_t n) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) {
      const bool take = x[i] > best[i] || x[i] != x[i];
      best[i] = take ? x[i] : best[i];
      at[i] = take ? static_cast<int32_t>(place + i * place_step) : at[i];
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const T value = x[i * step];
    const bool take = value > best[i] || value != value;
    best[i] = take ? value : best[i];
    at[i] = take ? static_cast<int32_t>(place + i * place_step) : at[i];
  }
}

// The outputs [first, last) whose window entry `k` lies inside.
struct Inside {
  int64_t first, last;
  Inside(const PoolDim& d, int64_t k) {
    const int64_t offset = k * d.dilation - d.padding;  // of the entry, from output 0 on in steps of the stride
    first = offset >= 0 ? 0 : (-offset + d.stride - 1) / d.stride;
    last = std::min(d.out, d.in - offset <= 0 ? 0 : (d.in - offset - 1) / d.stride + 1);
    first = std::min(first, last);
  }
};

// One plane of a contiguous tensor; rows of the output at a time. `f(x, step, place, o_first, count)` meets one entry of the windows of `count` neighbours.
template <class T, class F>
HWY_INLINE void windows_of_row(const PoolArgs& a, const T* plane, int64_t od, int64_t oh, const F& f) {
  const PoolDim &dd = a.dims[0], &dh = a.dims[1], &dw = a.dims[2];
  for (int64_t z = dd.begin(od); z < dd.end(od); z += dd.dilation) {
    if (z < 0 || z >= dd.in) continue;
    for (int64_t y = dh.begin(oh); y < dh.end(oh); y += dh.dilation) {
      if (y < 0 || y >= dh.in) continue;
      const int64_t row = (z * dh.in + y) * dw.in;
      if (dw.kernel == 0) {
        for (int64_t o = 0; o < dw.out; ++o)
          for (int64_t x = dw.begin(o); x < dw.end(o); ++x) f(plane + row + x, int64_t{1}, row + x, o, int64_t{1});
        continue;
      }
      for (int64_t k = 0; k < dw.kernel; ++k) {
        const Inside in(dw, k);
        if (in.first == in.last) continue;
        const int64_t x = in.first * dw.stride + k * dw.dilation - dw.padding;
        f(plane + row + x, dw.stride, row + x, in.first, in.last - in.first);
      }
    }
  }
}

// The first entry of a window that lies inside: what is reported where nothing is larger than -inf.
HWY_INLINE int64_t first_inside(const PoolDim& d, int64_t o) {
  int64_t i = d.begin(o);
  while (i < 0) i += d.dilation;
  return i;
}

template <class T>
void max_planes(const PoolArgs& a, const T* in, T* out, int64_t* indices, int64_t begin, int64_t end) {
  const PoolDim &dd = a.dims[0], &dh = a.dims[1], &dw = a.dims[2];
  const int64_t plane_in = dd.in * dh.in * dw.in, width = dw.out, plane_out = dd.out * dh.out * width;
  detail::Scratch room(static_cast<size_t>(width) * sizeof(int32_t));
  int32_t* at = room.as<int32_t>();
  for (int64_t p = begin; p < end; ++p) {
    for (int64_t od = 0; od < dd.out; ++od) {
      for (int64_t oh = 0; oh < dh.out; ++oh) {
        T* best = out + p * plane_out + (od * dh.out + oh) * width;
        const int64_t corner = (first_inside(dd, od) * dh.in + first_inside(dh, oh)) * dw.in;
        for (int64_t o = 0; o < width; ++o) {
          best[o] = -std::numeric_limits<T>::infinity();
          at[o] = static_cast<int32_t>(corner + first_inside(dw, o));
        }
        windows_of_row<T>(a, in + p * plane_in, od, oh,
                          [&](const T* x, int64_t step, int64_t place, int64_t o, int64_t n)
                              HWY_ATTR { take_larger<T>(x, step, place, step, best + o, at + o, n); });
        int64_t* to = indices + p * plane_out + (od * dh.out + oh) * width;
        for (int64_t o = 0; o < width; ++o) to[o] = at[o];
      }
    }
  }
}

template <class T>
void avg_planes(const PoolArgs& a, const T* in, T* out, int64_t begin, int64_t end);

// How many entries the sum of a window is divided by.
HWY_INLINE double divisor_of(const PoolArgs& a, int64_t od, int64_t oh, int64_t ow) {
  if (a.divisor != 0) return static_cast<double>(a.divisor);
  const int64_t o[3] = {od, oh, ow};
  double count = 1;
  for (int d = 0; d < 3; ++d) {
    const PoolDim& dim = a.dims[d];
    int64_t b = dim.begin(o[d]), e = dim.end(o[d]);
    // Padding counts, but not what a window that hangs over reaches beyond it.
    if (a.count_padding) e = std::min(e, dim.in + dim.padding);
    else b = std::max<int64_t>(b, 0), e = std::min(e, dim.in);
    count *= static_cast<double>(e - b);
  }
  return count;
}

template <class T>
void avg_planes(const PoolArgs& a, const T* in, T* out, int64_t begin, int64_t end) {
  const PoolDim &dd = a.dims[0], &dh = a.dims[1], &dw = a.dims[2];
  const int64_t plane_in = dd.in * dh.in * dw.in, width = dw.out, plane_out = dd.out * dh.out * width;
  for (int64_t p = begin; p < end; ++p) {
    for (int64_t od = 0; od < dd.out; ++od) {
      for (int64_t oh = 0; oh < dh.out; ++oh) {
        T* sum = out + p * plane_out + (od * dh.out + oh) * width;
        std::fill_n(sum, width, T(0));
        windows_of_row<T>(a, in + p * plane_in, od, oh,
                          [&](const T* x, int64_t step, int64_t, int64_t o, int64_t n) HWY_ATTR {
                            for (int64_t i = 0; i < n; ++i) sum[o + i] += x[i * step];
                          });
        for (int64_t o = 0; o < width; ++o) sum[o] /= static_cast<T>(divisor_of(a, od, oh, o));
      }
    }
  }
}

template <class T>
void avg_planes_backward(const PoolArgs& a, const T* grad, T* grad_in, int64_t begin, int64_t end) {
  const PoolDim &dd = a.dims[0], &dh = a.dims[1], &dw = a.dims[2];
  const int64_t plane_in = dd.in * dh.in * dw.in, width = dw.out, plane_out = dd.out * dh.out * width;
  detail::Scratch room(static_cast<size_t>(width) * sizeof(T));
  T* share = room.as<T>();
  for (int64_t p = begin; p < end; ++p) {
    T* target = grad_in + p * plane_in;
    std::fill_n(target, plane_in, T(0));
    for (int64_t od = 0; od < dd.out; ++od) {
      for (int64_t oh = 0; oh < dh.out; ++oh) {
        const T* g = grad + p * plane_out + (od * dh.out + oh) * width;
        for (int64_t o = 0; o < width; ++o) share[o] = g[o] / static_cast<T>(divisor_of(a, od, oh, o));
        windows_of_row<T>(a, target, od, oh, [&](const T* x, int64_t step, int64_t, int64_t o, int64_t n) HWY_ATTR {
          T* to = target + (x - target);
          for (int64_t i = 0; i < n; ++i) to[i * step] += share[o + i];
        });
      }
    }
  }
}

// Channels innermost: `f(place)` for every place inside the window of an output.
template <class F>
HWY_INLINE void places_of_window(const PoolArgs& a, int64_t od, int64_t oh, int64_t ow, const F& f) {
  const PoolDim &dd = a.dims[0], &dh = a.dims[1], &dw = a.dims[2];
  for (int64_t z = dd.begin(od); z < dd.end(od); z += dd.dilation) {
    if (z < 0 || z >= dd.in) continue;
    for (int64_t y = dh.begin(oh); y < dh.end(oh); y += dh.dilation) {
      if (y < 0 || y >= dh.in) continue;
      for (int64_t x = dw.begin(ow); x < dw.end(ow); x += dw.dilation)
        if (x >= 0 && x < dw.in) f((z * dh.in + y) * dw.in + x);
    }
  }
}

// Rows [begin, end) of (N, depth, height).
template <class T>
void max_channels(const PoolArgs& a, const T* in, T* out, int64_t* indices, int64_t begin, int64_t end) {
  const PoolDim &dd = a.dims[0], &dh = a.dims[1], &dw = a.dims[2];
  const int64_t c = a.channels, places = dd.in * dh.in * dw.in;
  detail::Scratch room(static_cast<size_t>(c) * sizeof(int32_t));
  int32_t* at = room.as<int32_t>();
  for (int64_t r = begin; r < end; ++r) {
    const int64_t oh = r % dh.out, od = r / dh.out % dd.out, n = r / dh.out / dd.out;
    const T* sample = in + n * places * c;
    for (int64_t ow = 0; ow < dw.out; ++ow) {
      T* best = out + (r * dw.out + ow) * c;
      const auto corner =
          static_cast<int32_t>((first_inside(dd, od) * dh.in + first_inside(dh, oh)) * dw.in + first_inside(dw, ow));
      std::fill_n(best, c, -std::numeric_limits<T>::infinity());
      std::fill_n(at, c, corner);
      places_of_window(a, od, oh, ow,
                       [&](int64_t place) HWY_ATTR { take_larger<T>(sample + place * c, 1, place, 0, best, at, c); });
      int64_t* to = indices + (r * dw.out + ow) * c;
      for (int64_t i = 0; i < c; ++i) to[i] = at[i];
    }
  }
}

template <class T>
void avg_channels(const PoolArgs& a, const T* in, T* out, int64_t begin, int64_t end) {
  const PoolDim &dd = a.dims[0], &dh = a.dims[1], &dw = a.dims[2];
  const int64_t c = a.channels, places = dd.in * dh.in * dw.in;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t oh = r % dh.out, od = r / dh.out % dd.out, n = r / dh.out / dd.out;
    const T* sample = in + n * places * c;
    for (int64_t ow = 0; ow < dw.out; ++ow) {
      T* sum = out + (r * dw.out + ow) * c;
      std::fill_n(sum, c, T(0));
      places_of_window(a, od, oh, ow, [&](int64_t place) HWY_ATTR {
        const T* x = sample + place * c;
        for (int64_t i = 0; i < c; ++i) sum[i] += x[i];
      });
      const T by = static_cast<T>(divisor_of(a, od, oh, ow));
      for (int64_t i = 0; i < c; ++i) sum[i] /= by;
    }
  }
}

// Samples [begin, end).
template <class T>
void avg_channels_backward(const PoolArgs& a, const T* grad, T* grad_in, int64_t begin, int64_t end) {
  const PoolDim &dd = a.dims[0], &dh = a.dims[1], &dw = a.dims[2];
  const int64_t c = a.channels, places = dd.in * dh.in * dw.in;
  for (int64_t n = begin; n < end; ++n) {
    T* sample = grad_in + n * places * c;
    std::fill_n(sample, places * c, T(0));
    const T* g = grad + n * dd.out * dh.out * dw.out * c;
    for (int64_t od = 0; od < dd.out; ++od)
      for (int64_t oh = 0; oh < dh.out; ++oh)
        for (int64_t ow = 0; ow < dw.out; ++ow, g += c) {
          const T by = static_cast<T>(divisor_of(a, od, oh, ow));
          places_of_window(a, od, oh, ow, [&](int64_t place) HWY_ATTR {
            T* to = sample + place * c;
            for (int64_t i = 0; i < c; ++i) to[i] += g[i] / by;
          });
        }
  }
}

// Work items that are worth a thread, from the entries that one of them touches.
int64_t grain(int64_t entries) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(entries, 1)); }

template <class T>
void max_pool(const PoolArgs& a, const Tensor& input, const Tensor& output, const Tensor& indices) {
  const T* in = reinterpret_cast<const T*>(input.impl()->data());
  T* out = reinterpret_cast<T*>(output.impl()->data());
  auto* at = reinterpret_cast<int64_t*>(indices.impl()->data());
  const int64_t rows = a.batch * a.dims[0].out * a.dims[1].out, planes = a.batch * a.channels;
  if (a.channels_last)
    parallel_for(0, rows, grain(a.dims[2].in * a.channels),
                 [&](int64_t b, int64_t e) { max_channels<T>(a, in, out, at, b, e); });
  else
    parallel_for(0, planes, grain(input.impl()->numel / planes),
                 [&](int64_t b, int64_t e) { max_planes<T>(a, in, out, at, b, e); });
}

// Windows with nothing inside have a place that is nobody's.
inline bool is_place(int64_t place, int64_t places) { return place >= 0 && place < places; }

template <class T>
void max_pool_backward(const PoolArgs& a, const Tensor& grad_output, const Tensor& indices, const Tensor& grad_input) {
  const T* g = reinterpret_cast<const T*>(grad_output.impl()->data());
  T* out = reinterpret_cast<T*>(grad_input.impl()->data());
  const auto* at = reinterpret_cast<const int64_t*>(indices.impl()->data());
  const int64_t places = a.dims[0].in * a.dims[1].in * a.dims[2].in,
                outs = a.dims[0].out * a.dims[1].out * a.dims[2].out;
  const int64_t c = a.channels;
  if (a.channels_last) {
    return parallel_for(0, a.batch, grain(places * c), [&](int64_t b, int64_t e) {
      for (int64_t n = b; n < e; ++n) {
        T* sample = out + n * places * c;
        std::fill_n(sample, places * c, T(0));
        for (int64_t o = n * outs * c; o < (n + 1) * outs * c; o += c)
          for (int64_t i = 0; i < c; ++i)
            if (is_place(at[o + i], places)) sample[at[o + i] * c + i] += g[o + i];
      }
    });
  }
  parallel_for(0, a.batch * c, grain(places), [&](int64_t b, int64_t e) {
    for (int64_t p = b; p < e; ++p) {
      T* plane = out + p * places;
      std::fill_n(plane, places, T(0));
      for (int64_t o = p * outs; o < (p + 1) * outs; ++o)
        if (is_place(at[o], places)) plane[at[o]] += g[o];
    }
  });
}

template <class T>
void avg_pool(const PoolArgs& a, const Tensor& input, const Tensor& output) {
  const T* in = reinterpret_cast<const T*>(input.impl()->data());
  T* out = reinterpret_cast<T*>(output.impl()->data());
  const int64_t rows = a.batch * a.dims[0].out * a.dims[1].out, planes = a.batch * a.channels;
  if (a.channels_last)
    parallel_for(0, rows, grain(a.dims[2].in * a.channels),
                 [&](int64_t b, int64_t e) { avg_channels<T>(a, in, out, b, e); });
  else
    parallel_for(0, planes, grain(input.impl()->numel / planes),
                 [&](int64_t b, int64_t e) { avg_planes<T>(a, in, out, b, e); });
}

template <class T>
void avg_pool_backward(const PoolArgs& a, const Tensor& grad_output, const Tensor& grad_input) {
  const T* g = reinterpret_cast<const T*>(grad_output.impl()->data());
  T* out = reinterpret_cast<T*>(grad_input.impl()->data());
  const int64_t planes = a.batch * a.channels, plane = grad_input.impl()->numel / planes;
  if (a.channels_last)
    parallel_for(0, a.batch, grain(plane * a.channels),
                 [&](int64_t b, int64_t e) { avg_channels_backward<T>(a, g, out, b, e); });
  else parallel_for(0, planes, grain(plane), [&](int64_t b, int64_t e) { avg_planes_backward<T>(a, g, out, b, e); });
}

}  // namespace

void max_pool_any(const PoolArgs& a, const Tensor& input, const Tensor& output, const Tensor& indices) {
  input.scalar_type() == kDouble ? max_pool<double>(a, input, output, indices)
                                 : max_pool<float>(a, input, output, indices);
}
void max_pool_backward_any(const PoolArgs& a, const Tensor& grad_output, const Tensor& indices,
                           const Tensor& grad_input) {
  grad_output.scalar_type() == kDouble ? max_pool_backward<double>(a, grad_output, indices, grad_input)
                                       : max_pool_backward<float>(a, grad_output, indices, grad_input);
}
void avg_pool_any(const PoolArgs& a, const Tensor& input, const Tensor& output) {
  input.scalar_type() == kDouble ? avg_pool<double>(a, input, output) : avg_pool<float>(a, input, output);
}
void avg_pool_backward_any(const PoolArgs& a, const Tensor& grad_output, const Tensor& grad_input) {
  grad_output.scalar_type() == kDouble ? avg_pool_backward<double>(a, grad_output, grad_input)
                                       : avg_pool_backward<float>(a, grad_output, grad_input);
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {
namespace {

HWY_EXPORT(max_pool_any);
HWY_EXPORT(max_pool_backward_any);
HWY_EXPORT(avg_pool_any);
HWY_EXPORT(avg_pool_backward_any);

void max_pool_cpu(const PoolArgs& a, const Tensor& input, const Tensor& output, const Tensor& indices) {
  HWY_DYNAMIC_DISPATCH(max_pool_any)(a, input, output, indices);
}
void max_pool_backward_cpu(const PoolArgs& a, const Tensor& grad_output, const Tensor& indices,
                           const Tensor& grad_input) {
  HWY_DYNAMIC_DISPATCH(max_pool_backward_any)(a, grad_output, indices, grad_input);
}
void avg_pool_cpu(const PoolArgs& a, const Tensor& input, const Tensor& output) {
  HWY_DYNAMIC_DISPATCH(avg_pool_any)(a, input, output);
}
void avg_pool_backward_cpu(const PoolArgs& a, const Tensor& grad_output, const Tensor& grad_input) {
  HWY_DYNAMIC_DISPATCH(avg_pool_backward_any)(a, grad_output, grad_input);
}

const KernelRegistration max_pool_registration(OpId::_max_pool, DeviceType::CPU, &max_pool_cpu);
const KernelRegistration max_pool_backward_registration(OpId::_max_pool_backward, DeviceType::CPU,
                                                        &max_pool_backward_cpu);
const KernelRegistration avg_pool_registration(OpId::_avg_pool, DeviceType::CPU, &avg_pool_cpu);
const KernelRegistration avg_pool_backward_registration(OpId::_avg_pool_backward, DeviceType::CPU,
                                                        &avg_pool_backward_cpu);

}  // namespace
}  // namespace facula
#endif
