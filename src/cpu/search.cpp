// The CPU kernels of searchsorted, isin, bincount and histc. Runs of equal entries (unique) live in unique.cpp.
#include "core/dispatch.h"
#include "core/function_ref.h"
#include "core/kernel_table.h"
#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"

#include <facula/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace facula {
namespace {

using namespace detail;

constexpr int64_t kChunk = 512;

// Calls f with the C++ type of a compute type that has an order.
template <class F>
void dispatch_ordered(CType type, const F& f) {
  switch (type) {
    case CType::F32: return f.template operator()<float>();
    case CType::F64: return f.template operator()<double>();
    case CType::I32: return f.template operator()<int32_t>();
    case CType::I64: return f.template operator()<int64_t>();
    case CType::U64: return f.template operator()<uint64_t>();
    case CType::B8: return f.template operator()<uint8_t>();
    default: raise_dispatch_error(dtype_of(type), "a real dtype");
  }
}

// Contiguous entries in their compute type: where they are, or converted into `buffer`.
template <class T>
const T* in_compute_type(const char* src, ScalarType t, int64_t n, T* buffer) {
  const ConvertFn convert = load_fn(t);
  if (!convert) return reinterpret_cast<const T*>(src);
  convert(src, buffer, static_cast<size_t>(n));
  return buffer;
}

// The whole of a contiguous tensor in its compute type.
template <class T>
class Converted {
 public:
  explicit Converted(const Tensor& t)
      : buffer_(load_fn(t.impl()->dtype) ? static_cast<size_t>(t.impl()->numel) * sizeof(T) : 0),
        data_(in_compute_type(t.impl()->data(), t.impl()->dtype, t.impl()->numel, buffer_.as<T>())) {}
  const T* data() const { return data_; }

 private:
  Scratch buffer_;
  const T* data_;
};

// Binary searches for several values at once: they take the same number of steps, without branches, and their cache misses overlap.
// NaN goes behind everything.
template <class T, bool kRight, class At>
void search_group(const At& at, int64_t n, const T* values, int64_t count, int64_t* places) {
  constexpr int64_t kGroup = 16;
  for (int64_t g = 0; g < count; g += kGroup) {
    const int64_t m = std::min(kGroup, count - g);
    const T* v = values + g;
    int64_t* base = places + g;
    std::fill_n(base, m, int64_t{0});
    int64_t length = n;
    while (length > 1) {
      const int64_t half = length / 2;
      for (int64_t j = 0; j < m; ++j) {
        const T entry = at(base[j] + half - 1);
        base[j] += (kRight ? entry <= v[j] : entry < v[j]) ? half : 0;
      }
      length -= half;
    }
    for (int64_t j = 0; j < m; ++j) {
      if (n > 0) {
        const T entry = at(base[j]);
        base[j] += (kRight ? entry <= v[j] : entry < v[j]) ? 1 : 0;
      }
      if (v[j] != v[j]) base[j] = n;
    }
  }
}

template <class T>
void search_chunk(const T* sequence, const int64_t* sorter, int64_t n, bool right, const T* values, int64_t count,
                  int64_t* places) {
  const auto plain = [sequence](int64_t i) { return sequence[i]; };
  const auto sorted = [sequence, sorter](int64_t i) { return sequence[sorter[i]]; };
  if (sorter) {
    if (right) search_group<T, true>(sorted, n, values, count, places);
    else search_group<T, false>(sorted, n, values, count, places);
  } else if (right) {
    search_group<T, true>(plain, n, values, count, places);
  } else {
    search_group<T, false>(plain, n, values, count, places);
  }
}

// All contiguous. `sequence` is one row, or as many rows as `values` has; `out` is int64 or int32.
void searchsorted_cpu(const Tensor& sequence, const Tensor& values, const Tensor* sorter, bool right,
                      const Tensor& out) {
  const int64_t total = values.impl()->numel;
  if (total == 0) return;
  const ScalarType t = sequence.impl()->dtype;
  const int64_t n = sequence.impl()->sizes.back();
  const bool one_row = sequence.impl()->dim() == 1;
  const int64_t row = one_row ? total : values.impl()->sizes.back();
  const int64_t elem = static_cast<int64_t>(elementSize(t));
  const bool narrow = out.impl()->dtype == kInt;
  dispatch_ordered(compute_type(t), [&]<class T>() {
    const Converted<T> entries(sequence);
    const int64_t* order = sorter ? reinterpret_cast<const int64_t*>(sorter->impl()->data()) : nullptr;
    parallel_for(0, total, 2048, [&](int64_t begin, int64_t end) {
      T buffer[kChunk];
      int64_t places[kChunk];
      for (int64_t i = begin; i < end;) {
        const int64_t r = i / row;
        const int64_t count = std::min({kChunk, end - i, (r + 1) * row - i});
        const T* v = in_compute_type<T>(values.impl()->data() + i * elem, t, count, buffer);
        int64_t* wide = reinterpret_cast<int64_t*>(out.impl()->data()) + i;
        search_chunk(entries.data() + r * n, order ? order + r * n : nullptr, n, right, v, count,
                     narrow ? places : wide);
        if (narrow) {
          int32_t* to = reinterpret_cast<int32_t*>(out.impl()->data()) + i;
          for (int64_t j = 0; j < count; ++j) to[j] = static_cast<int32_t>(places[j]);
        }
        i += count;
      }
    });
  });
}

// `elements` contiguous, `sorted` ascending and of the same dtype, `out` bool.
void isin_cpu(const Tensor& elements, const Tensor& sorted, bool invert, const Tensor& out) {
  const ScalarType t = elements.impl()->dtype;
  const int64_t elem = static_cast<int64_t>(elementSize(t));
  const int64_t n = sorted.impl()->numel;
  bool* to = reinterpret_cast<bool*>(out.impl()->data());
  dispatch_ordered(compute_type(t), [&]<class T>() {
    const Converted<T> tests(sorted);
    const T* entries = tests.data();
    parallel_for(0, elements.impl()->numel, 2048, [&](int64_t begin, int64_t end) {
      T buffer[kChunk];
      int64_t places[kChunk];
      for (int64_t i = begin; i < end; i += kChunk) {
        const int64_t count = std::min(kChunk, end - i);
        const T* v = in_compute_type<T>(elements.impl()->data() + i * elem, t, count, buffer);
        search_chunk<T>(entries, nullptr, n, false, v, count, places);
        for (int64_t j = 0; j < count; ++j) to[i + j] = (places[j] < n && entries[places[j]] == v[j]) != invert;
      }
    });
  });
}

// `self` int64 and contiguous, not empty; `weights` double and contiguous or nullptr. `make` gives the result, int64 or double, once its
// size is known.
void bincount_cpu(const Tensor& self, const Tensor* weights, int64_t minlength, FunctionRef<Tensor(int64_t)> make) {
  const int64_t n = self.impl()->numel;
  const int64_t* x = reinterpret_cast<const int64_t*>(self.impl()->data());
  const auto [low, high] = std::minmax_element(x, x + n);
  FACULA_CHECK(*low >= 0, ValueError,
               "bincount: only supports 1-d non-negative integral inputs, but the smallest entry is ", *low);
  const int64_t bins = std::max(*high + 1, minlength);
  const Tensor out = make(bins);
  if (weights) {
    // In order, so that the sums do not depend on the number of threads.
    const double* w = reinterpret_cast<const double*>(weights->impl()->data());
    double* sums = reinterpret_cast<double*>(out.impl()->data());
    std::fill_n(sums, bins, 0.0);
    for (int64_t i = 0; i < n; ++i) sums[x[i]] += w[i];
    return;
  }
  int64_t* counts = reinterpret_cast<int64_t*>(out.impl()->data());
  std::fill_n(counts, bins, int64_t{0});
  const int threads = n >= 65536 && bins <= n / 4 ? get_num_threads() : 1;
  Scratch more(static_cast<size_t>(threads - 1) * static_cast<size_t>(bins) * sizeof(int64_t));
  parallel_threads(threads, [&](int thread) {
    int64_t* own = counts;
    if (thread > 0) {
      own = more.as<int64_t>() + (thread - 1) * bins;
      std::fill_n(own, bins, int64_t{0});
    }
    for (int64_t i = n * thread / threads, end = n * (thread + 1) / threads; i < end; ++i) ++own[x[i]];
  });
  for (int thread = 1; thread < threads; ++thread)
    for (int64_t b = 0; b < bins; ++b) counts[b] += more.as<int64_t>()[(thread - 1) * bins + b];
}

template <class T>
void add_to_histogram(const T* x, int64_t n, double low, double high, int64_t bins, int64_t* counts) {
  const double width = high - low, scale = static_cast<double>(bins);
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]);
    if (!(v >= low && v <= high)) continue;
    const int64_t bin = static_cast<int64_t>((v - low) / width * scale);
    ++counts[std::min(bin, bins - 1)];
  }
}

// `self` contiguous, `counts` int64. Equal limits mean: take those of the data.
void histc_cpu(const Tensor& self, double low, double high, const Tensor& counts) {
  const ScalarType t = self.impl()->dtype;
  const int64_t n = self.impl()->numel, bins = counts.impl()->numel, elem = static_cast<int64_t>(elementSize(t));
  int64_t* result = reinterpret_cast<int64_t*>(counts.impl()->data());
  std::fill_n(result, bins, int64_t{0});
  dispatch_ordered(compute_type(t), [&]<class T>() {
    // Chunks of the data in their compute type.
    const auto each_chunk = [&](int64_t begin, int64_t end, const auto& f) {
      T buffer[kChunk];
      for (int64_t i = begin; i < end; i += kChunk) {
        const int64_t count = std::min(kChunk, end - i);
        f(in_compute_type<T>(self.impl()->data() + i * elem, t, count, buffer), count);
      }
    };
    if (low == high && n > 0) {
      double least = std::numeric_limits<double>::infinity(), most = -least;
      bool nan = false;
      each_chunk(0, n, [&](const T* x, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const double v = static_cast<double>(x[i]);
          least = v < least ? v : least;
          most = v > most ? v : most;
          nan = nan || v != v;
        }
      });
      low = nan ? std::numeric_limits<double>::quiet_NaN() : least;
      high = nan ? low : most;
    }
    FACULA_CHECK(std::isfinite(low) && std::isfinite(high), ValueError, "histc: range of [", low, ", ", high,
                 "] is not finite; give min and max");
    if (low == high) {
      low -= 1;
      high += 1;
    }
    const int threads = n >= 65536 && bins <= n / 8 ? get_num_threads() : 1;
    Scratch more(static_cast<size_t>(threads - 1) * static_cast<size_t>(bins) * sizeof(int64_t));
    parallel_threads(threads, [&](int thread) {
      int64_t* own = result;
      if (thread > 0) {
        own = more.as<int64_t>() + (thread - 1) * bins;
        std::fill_n(own, bins, int64_t{0});
      }
      each_chunk(n * thread / threads, n * (thread + 1) / threads,
                 [&](const T* x, int64_t count) { add_to_histogram(x, count, low, high, bins, own); });
    });
    for (int thread = 1; thread < threads; ++thread)
      for (int64_t b = 0; b < bins; ++b) result[b] += more.as<int64_t>()[(thread - 1) * bins + b];
  });
}

const KernelRegistration searchsorted_registration(OpId::searchsorted, DeviceType::CPU, &searchsorted_cpu);
const KernelRegistration isin_registration(OpId::isin, DeviceType::CPU, &isin_cpu);
const KernelRegistration bincount_registration(OpId::bincount, DeviceType::CPU, &bincount_cpu);
const KernelRegistration histc_registration(OpId::histc, DeviceType::CPU, &histc_cpu);

}  // namespace
}  // namespace facula
