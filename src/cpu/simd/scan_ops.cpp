// The loops of scans, compiled once per instruction set. Sums along a row work on groups of eight entries on every machine, so that the
// order of additions, and with it every bit of the result, is the same everywhere.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/scan_ops.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/scan_ops.h"
#include "cpu/simd/elementary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace {

using detail::kScanBlock;
using detail::ScanCarry;
using detail::ScanKernel;
using detail::ScanOp;

// Two numbers side by side, for complex entries.
template <class T>
struct Pair {
  T re, im;
  template <class U>
  explicit operator Pair<U>() const {
    return {static_cast<U>(re), static_cast<U>(im)};
  }
  Pair operator+(Pair o) const { return {re + o.re, im + o.im}; }
  Pair operator*(Pair o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
};

// What is added up in: floats in double, integers without sign since these may wrap.
template <class T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<float> {
  using type = double;
};
template <>
struct AccumulatorOf<int32_t> {
  using type = uint32_t;
};
template <>
struct AccumulatorOf<int64_t> {
  using type = uint64_t;
};
template <>
struct AccumulatorOf<Pair<float>> {
  using type = Pair<double>;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

template <class A>
struct SumCarry {
  A base;   // sum of the blocks before
  A local;  // sum of this block so far
};

template <class T, int N>
using Group __attribute__((vector_size(N * sizeof(T)))) = T;

// Adds a group of eight to the running sum of the block.
template <class T>
HWY_INLINE void sum_groups(const T* HWY_RESTRICT in, T* HWY_RESTRICT out, int64_t groups, Accumulator<T> base,
                           Accumulator<T>& local) {
  using A = Accumulator<T>;
  using V = Group<A, 8>;
  const V zero = {};
  const V from = zero + base;
  V running = zero + local;
  for (int64_t g = 0; g < groups; ++g) {
    Group<T, 8> raw;
    std::memcpy(&raw, in + 8 * g, sizeof(raw));
    V x = __builtin_convertvector(raw, V);
    x += __builtin_shufflevector(x, zero, 8, 0, 1, 2, 3, 4, 5, 6);
    x += __builtin_shufflevector(x, zero, 8, 9, 0, 1, 2, 3, 4, 5);
    x += __builtin_shufflevector(x, zero, 8, 9, 10, 11, 0, 1, 2, 3);
    const V result = from + (x + running);
    running += __builtin_shufflevector(x, x, 7, 7, 7, 7, 7, 7, 7, 7);
    raw = __builtin_convertvector(result, Group<T, 8>);
    std::memcpy(out + 8 * g, &raw, sizeof(raw));
  }
  local = running[0];
}

template <class T>
void sum_along(const void* in_any, void* out_any, int64_t*, int64_t first, int64_t n, ScanCarry* carry_any) {
  using A = Accumulator<T>;
  const T* in = static_cast<const T*>(in_any);
  T* out = static_cast<T*>(out_any);
  SumCarry<A>* carry = reinterpret_cast<SumCarry<A>*>(carry_any);
  if (first == 0) *carry = {};
  for (int64_t i = 0; i < n;) {
    const int64_t place = (first + i) % kScanBlock;
    if (place == 0) {
      carry->base = carry->base + carry->local;
      carry->local = {};
    }
    const int64_t count = std::min(n - i, kScanBlock - place);
    int64_t done = 0;
    if constexpr (std::is_arithmetic_v<T>) {
      done = count / 8 * 8;
      sum_groups<T>(in + i, out + i, count / 8, carry->base, carry->local);
    }
    for (; done < count; ++done) {
      carry->local = carry->local + static_cast<A>(in[i + done]);
      out[i + done] = static_cast<T>(carry->base + carry->local);
    }
    i += count;
  }
}

template <class T>
void prod_along(const void* in_any, void* out_any, int64_t*, int64_t first, int64_t n, ScanCarry* carry) {
  using A = Accumulator<T>;
  const T* in = static_cast<const T*>(in_any);
  T* out = static_cast<T*>(out_any);
  A product;
  std::memcpy(&product, carry, sizeof(A));
  int64_t i = 0;
  if (first == 0 && n > 0) {
    product = static_cast<A>(in[0]);
    out[0] = in[0];
    i = 1;
  }
  for (; i < n; ++i) {
    product = product * static_cast<A>(in[i]);
    out[i] = static_cast<T>(product);
  }
  std::memcpy(carry, &product, sizeof(A));
}

template <class T, bool kSum>
void fold_across(const void* in_any, int64_t in_stride, void* out_any, int64_t out_stride, int64_t*, int64_t,
                 int64_t first, int64_t n, int64_t width, void* carry) {
  using A = Accumulator<T>;
  const T* in = static_cast<const T*>(in_any);
  T* out = static_cast<T*>(out_any);
  A* HWY_RESTRICT total = static_cast<A*>(carry);
  for (int64_t i = 0; i < n; ++i) {
    const T* HWY_RESTRICT x = in + i * in_stride;
    T* HWY_RESTRICT y = out + i * out_stride;
    if (first + i == 0) {
      for (int64_t c = 0; c < width; ++c) {
        total[c] = static_cast<A>(x[c]);
        y[c] = x[c];
      }
      continue;
    }
    for (int64_t c = 0; c < width; ++c) {
      if constexpr (kSum) total[c] = total[c] + static_cast<A>(x[c]);
      else total[c] = total[c] * static_cast<A>(x[c]);
      y[c] = static_cast<T>(total[c]);
    }
  }
}

// Whether x takes the place of the best so far: of equals the last wins, NaN beats all.
template <class T, bool kMax>
HWY_INLINE bool takes(T x, T best) {
  const bool better = kMax ? x >= best : x <= best;
  if constexpr (std::is_floating_point_v<T>) return better | (x != x);
  else return better;
}

template <class T>
struct BestCarry {
  T value;
  int64_t index;
};

template <class T, bool kMax>
void best_along(const void* in_any, void* out_any, int64_t* indices, int64_t first, int64_t n, ScanCarry* carry_any) {
  const T* HWY_RESTRICT in = static_cast<const T*>(in_any);
  T* HWY_RESTRICT out = static_cast<T*>(out_any);
  BestCarry<T>* carry = reinterpret_cast<BestCarry<T>*>(carry_any);
  if (n == 0) return;
  if (first == 0) *carry = {in[0], 0};
  T best = carry->value;
  int64_t at = carry->index;
  for (int64_t i = 0; i < n; ++i) {
    const bool take = takes<T, kMax>(in[i], best);
    best = take ? in[i] : best;
    at = take ? first + i : at;
    out[i] = best;
    indices[i] = at;
  }
  *carry = {best, at};
}

template <class T, bool kMax>
void best_across(const void* in_any, int64_t in_stride, void* out_any, int64_t out_stride, int64_t* indices,
                 int64_t index_stride, int64_t first, int64_t n, int64_t width, void* carry) {
  const T* in = static_cast<const T*>(in_any);
  T* out = static_cast<T*>(out_any);
  // Indices first: they are the wider of the two and the memory is aligned for them.
  int64_t* HWY_RESTRICT at = static_cast<int64_t*>(carry);
  T* HWY_RESTRICT best = reinterpret_cast<T*>(at + width);
  for (int64_t i = 0; i < n; ++i) {
    const T* HWY_RESTRICT x = in + i * in_stride;
    T* HWY_RESTRICT y = out + i * out_stride;
    int64_t* HWY_RESTRICT index = indices + i * index_stride;
    const int64_t place = first + i;
    if (place == 0) {
      for (int64_t c = 0; c < width; ++c) {
        best[c] = y[c] = x[c];
        at[c] = index[c] = 0;
      }
      continue;
    }
    for (int64_t c = 0; c < width; ++c) {
      const bool take = takes<T, kMax>(x[c], best[c]);
      best[c] = take ? x[c] : best[c];
      at[c] = take ? place : at[c];
      y[c] = best[c];
      index[c] = at[c];
    }
  }
}

// log of a sum of exponentials: `top` is the greatest entry so far and `sum` adds exp(entry - top). Each entry costs one exponential,
// of minus its distance to the top before it: either the entry or the sum is scaled by that.
struct LogCarry {
  double top, sum;
};

HWY_INLINE Lane<double> minus_distance(Lane<double> x, Lane<double> top) {
  // Equal infinities are at distance 0.
  return m::select(x == top, splat<Lane<double>>(0.0), -m::abs(x - top));
}

void log_sum_along(const void* in_any, void* out_any, int64_t*, int64_t first, int64_t n, ScanCarry* carry_any) {
  constexpr int64_t kPiece = 256;
  constexpr int64_t kLanes = static_cast<int64_t>(Lane<double>::kSize);
  const double* in = static_cast<const double*>(in_any);
  double* out = static_cast<double*>(out_any);
  LogCarry* carry = reinterpret_cast<LogCarry*>(carry_any);
  if (first == 0) *carry = {-std::numeric_limits<double>::infinity(), 0.0};
  alignas(64) double x[kPiece], top[kPiece], scale[kPiece];
  for (int64_t p = 0; p < n; p += kPiece) {
    const int64_t count = std::min(kPiece, n - p);
    const int64_t whole = (count + kLanes - 1) / kLanes * kLanes;
    for (int64_t i = 0; i < count; ++i) {
      x[i] = in[p + i];
      top[i] = carry->top;
      carry->top = x[i] > carry->top ? x[i] : carry->top;
    }
    for (int64_t i = count; i < whole; ++i) x[i] = top[i] = 0.0;
    for (int64_t i = 0; i < whole; i += kLanes) store(m::exp(minus_distance(load(x + i), load(top + i))), scale + i);
    double sum = carry->sum;
    for (int64_t i = 0; i < count; ++i) {
      const bool rises = x[i] > top[i];
      sum = (rises ? sum * scale[i] : sum) + (rises ? 1.0 : scale[i]);
      top[i] = rises ? x[i] : top[i];
      scale[i] = sum;
    }
    carry->sum = sum;
    for (int64_t i = count; i < whole; ++i) scale[i] = 1.0;
    for (int64_t i = 0; i < whole; i += kLanes) store(m::log(load(scale + i)) + load(top + i), scale + i);
    std::memcpy(out + p, scale, static_cast<size_t>(count) * sizeof(double));
  }
}

HWY_INLINE void log_sum_step(const double* x_at, double* y_at, double* top_at, double* sum_at) {
  const Lane<double> one = splat<Lane<double>>(1.0);
  const Lane<double> x = load(x_at), top = load(top_at), sum = load(sum_at);
  const Lane<double> scale = m::exp(minus_distance(x, top));
  const auto rises = x > top;
  const Lane<double> next = m::select(rises, sum * scale, sum) + m::select(rises, one, scale);
  const Lane<double> next_top = m::select(rises, x, top);
  store(next, sum_at);
  store(next_top, top_at);
  store(m::log(next) + next_top, y_at);
}

void log_sum_across(const void* in_any, int64_t in_stride, void* out_any, int64_t out_stride, int64_t*, int64_t,
                    int64_t first, int64_t n, int64_t width, void* carry) {
  constexpr int64_t kLanes = static_cast<int64_t>(Lane<double>::kSize);
  const double* in = static_cast<const double*>(in_any);
  double* out = static_cast<double*>(out_any);
  double* top = static_cast<double*>(carry);
  double* sum = top + width;
  if (first == 0) {
    std::fill_n(top, width, -std::numeric_limits<double>::infinity());
    std::fill_n(sum, width, 0.0);
  }
  for (int64_t i = 0; i < n; ++i) {
    const double* x = in + i * in_stride;
    double* y = out + i * out_stride;
    int64_t c = 0;
    for (; c + kLanes <= width; c += kLanes) log_sum_step(x + c, y + c, top + c, sum + c);
    if (c == width) continue;
    double part[4][kLanes] = {};
    const size_t rest = static_cast<size_t>(width - c) * sizeof(double);
    std::memcpy(part[0], x + c, rest);
    std::memcpy(part[2], top + c, rest);
    std::memcpy(part[3], sum + c, rest);
    log_sum_step(part[0], part[1], part[2], part[3]);
    std::memcpy(y + c, part[1], rest);
    std::memcpy(top + c, part[2], rest);
    std::memcpy(sum + c, part[3], rest);
  }
}

template <class T>
constexpr ScanKernel sum_kernel(CType type) {
  return {type, sizeof(Accumulator<T>), &sum_along<T>, &fold_across<T, true>};
}
template <class T>
constexpr ScanKernel prod_kernel(CType type) {
  return {type, sizeof(Accumulator<T>), &prod_along<T>, &fold_across<T, false>};
}
template <class T, bool kMax>
constexpr ScanKernel best_kernel(CType type) {
  return {type, sizeof(T) + sizeof(int64_t), &best_along<T, kMax>, &best_across<T, kMax>};
}

constexpr ScanKernel kSums[] = {sum_kernel<float>(CType::F32),        sum_kernel<double>(CType::F64),
                                sum_kernel<int32_t>(CType::I32),      sum_kernel<int64_t>(CType::I64),
                                sum_kernel<uint64_t>(CType::U64),     sum_kernel<Pair<float>>(CType::C64),
                                sum_kernel<Pair<double>>(CType::C128)};
constexpr ScanKernel kProds[] = {prod_kernel<float>(CType::F32),        prod_kernel<double>(CType::F64),
                                 prod_kernel<int32_t>(CType::I32),      prod_kernel<int64_t>(CType::I64),
                                 prod_kernel<uint64_t>(CType::U64),     prod_kernel<Pair<float>>(CType::C64),
                                 prod_kernel<Pair<double>>(CType::C128)};
template <bool kMax>
constexpr ScanKernel kBests[] = {best_kernel<float, kMax>(CType::F32),    best_kernel<double, kMax>(CType::F64),
                                 best_kernel<int32_t, kMax>(CType::I32),  best_kernel<int64_t, kMax>(CType::I64),
                                 best_kernel<uint64_t, kMax>(CType::U64), best_kernel<uint8_t, kMax>(CType::B8)};
constexpr ScanKernel kLogs[] = {{CType::F64, 2 * sizeof(double), &log_sum_along, &log_sum_across}};

template <size_t N>
const ScanKernel* find(const ScanKernel (&kernels)[N], CType type) {
  for (const ScanKernel& k : kernels)
    if (k.type == type) return &k;
  return nullptr;
}

}  // namespace

const ScanKernel* find_scan_kernel(ScanOp op, CType type) {
  switch (op) {
    case ScanOp::Sum: return find(kSums, type);
    case ScanOp::Prod: return find(kProds, type);
    case ScanOp::Max: return find(kBests<true>, type);
    case ScanOp::Min: return find(kBests<false>, type);
    default: return find(kLogs, type);
  }
}

void chain_block_sums(CType type, ScanCarry* carries, int64_t blocks) {
  const auto apply = [&]<class A>(A) {
    // The first entry of a block moves the sum of the one before into the base.
    SumCarry<A> before = {};
    for (int64_t b = 0; b < blocks; ++b) {
      SumCarry<A> own;
      std::memcpy(&own, carries + b, sizeof(own));
      std::memcpy(carries + b, &before, sizeof(before));
      before = {before.base + before.local, own.local};
    }
  };
  switch (type) {
    case CType::F32:
    case CType::F64: return apply(double{});
    case CType::I32: return apply(uint32_t{});
    case CType::I64:
    case CType::U64: return apply(uint64_t{});
    default: return apply(Pair<double>{});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {

HWY_EXPORT(find_scan_kernel);
HWY_EXPORT(chain_block_sums);

namespace detail {

const ScanKernel* scan_kernel(ScanOp op, CType type) { return HWY_DYNAMIC_DISPATCH(find_scan_kernel)(op, type); }
void chain_sums(CType type, ScanCarry* carries, int64_t blocks) {
  HWY_DYNAMIC_DISPATCH(chain_block_sums)(type, carries, blocks);
}

}  // namespace detail
}  // namespace facula
#endif
