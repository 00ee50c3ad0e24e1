// Conversion loops, compiled once per instruction set. Plain loops over branch-free element conversions: the compiler
// vectorises them; only half precision asks for its own instructions. Choosing among them is convert.cpp's part.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/convert_kernels.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/convert_table.h"

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

// Iterations do not depend on each other; said by pragma and not by __restrict because source and destination may be
// the same array.
#ifdef __clang__
#define FACULA_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define FACULA_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

HWY_BEFORE_NAMESPACE();
namespace facula::detail {
namespace HWY_NAMESPACE {
namespace {

// A bool as memory holds it: any byte, true unless 0.
struct Bool8 {
  uint8_t v;
};

template <class T>
struct MemoryType {
  using type = T;
};
template <>
struct MemoryType<bool> {
  using type = Bool8;
};
template <ScalarType t>
using Memory = typename MemoryType<ScalarTypeToCppTypeT<t>>::type;

// What a value of memory type T is computed in.
template <class T>
HWY_INLINE auto widen(T v) {
  if constexpr (is_narrow_float_v<T>) return static_cast<float>(v);
  else if constexpr (std::is_same_v<T, uint32_t>) return static_cast<int64_t>(v);
  else if constexpr (std::is_integral_v<T> && sizeof(T) < 4) return static_cast<int32_t>(v);
  else return v;
}

// Truncation where it fits, the smallest integer otherwise and for NaN: what x86 does, without leaving it to the
// compiler.
template <class I, class F>
HWY_INLINE I truncate(F f) {
  constexpr F kLow = static_cast<F>(std::numeric_limits<I>::min());
  const bool fits = f >= kLow && f < -kLow;
  const I i = static_cast<I>(fits ? f : F(0));
  return fits ? i : std::numeric_limits<I>::min();
}

template <class F>
HWY_INLINE uint64_t truncate_unsigned(F f) {
  constexpr F kHalfWay = static_cast<F>(9223372036854775808.0);
  const bool upper = f >= kHalfWay && f < 2 * kHalfWay;
  const uint64_t low = static_cast<uint64_t>(truncate<int64_t>(upper ? f - kHalfWay : f));
  return upper ? low ^ (uint64_t{1} << 63) : low;
}

// A float that rounds to the same D as `s` does.
template <class D, class S>
HWY_INLINE float float_for(S s) {
  if constexpr (std::is_same_v<S, double>) return round_to_odd(s);
  // Integers that float does not hold are beyond the range of every narrow format but bfloat16.
  else if constexpr (!std::is_same_v<D, BFloat16>) return static_cast<float>(s);
  else if constexpr (std::is_same_v<S, int32_t>) return round_to_odd(static_cast<double>(s));
  else if constexpr (std::is_integral_v<S>) return round_to_odd(round_to_odd(s));
  else return s;
}

// A compute-type value as memory type D.
template <class D, class S>
HWY_INLINE D narrow(S s) {
  if constexpr (is_complex_v<D>) {
    using P = typename D::value_type;
    if constexpr (is_complex_v<S>) return D(narrow<P>(s.real_), narrow<P>(s.imag_));
    else return D(narrow<P>(s), narrow<P>(0.0f));
  } else if constexpr (is_complex_v<S>) {
    if constexpr (std::is_same_v<D, Bool8>) return Bool8{static_cast<uint8_t>((s.real_ != 0) | (s.imag_ != 0))};
    else return narrow<D>(s.real_);
  } else if constexpr (std::is_same_v<D, S>) {
    return s;
  } else if constexpr (std::is_same_v<S, Bool8>) {
    if constexpr (is_narrow_float_v<D>) return D(s.v != 0 ? 1.0f : 0.0f);
    else return narrow<D>(static_cast<int32_t>(s.v != 0));
  } else if constexpr (std::is_same_v<D, Bool8>) {
    return Bool8{static_cast<uint8_t>(s != 0)};
  } else if constexpr (is_narrow_float_v<D>) {
    return D(float_for<D>(s));
  } else if constexpr (std::is_integral_v<D> && std::is_floating_point_v<S>) {
    if constexpr (std::is_same_v<D, uint64_t>) return truncate_unsigned(s);
    else if constexpr (std::is_same_v<D, int64_t> || std::is_same_v<D, uint32_t>)
      return static_cast<D>(truncate<int64_t>(s));
    else return static_cast<D>(truncate<int32_t>(s));
  } else {
    return static_cast<D>(s);
  }
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
constexpr bool kHalfInstructions = true;
#else
constexpr bool kHalfInstructions = false;
#endif

// Calls f(begin, length, buffer) for pieces that stay in L1.
template <class F>
HWY_INLINE void in_pieces(size_t n, F f) {
  alignas(64) float piece[512];
  for (size_t i = 0; i < n; i += 512) f(i, n - i < 512 ? n - i : size_t{512}, piece);
}

template <class S, class D>
void convert(const void* src, void* dst, size_t n);

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
template <>
void convert<Half, float>(const void* src, void* dst, size_t n) {
  const Half* s = static_cast<const Half*>(src);
  float* d = static_cast<float*>(dst);
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX3
  for (; i + 16 <= n; i += 16) {
    _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i))));
  }
#endif
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i))));
  }
  for (; i < n; ++i) d[i] = s[i];
}

template <>
void convert<float, Half>(const void* src, void* dst, size_t n) {
  const float* s = static_cast<const float*>(src);
  Half* d = static_cast<Half*>(dst);
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX3
  for (; i + 16 <= n; i += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + i), _mm512_cvtps_ph(_mm512_loadu_ps(s + i), kNearest));
  }
#endif
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), kNearest));
  }
  for (; i < n; ++i) d[i] = Half(s[i]);
}
#endif

// Small integers on their way to a narrow float take the short way through float, which holds them exactly.
template <class D, class S>
HWY_INLINE auto exact_float_or_same(S s) {
  if constexpr (is_narrow_float_v<D> && std::is_integral_v<S> && sizeof(S) <= 2) return static_cast<float>(s);
  else return widen(s);
}

template <class S, class D>
void convert(const void* src, void* dst, size_t n) {
  const S* s = static_cast<const S*>(src);
  D* d = static_cast<D*>(dst);
  if constexpr (is_complex_v<S> && is_complex_v<D>) {
    convert<typename S::value_type, typename D::value_type>(src, dst, 2 * n);
  } else if constexpr (kHalfInstructions && std::is_same_v<S, Half> && !std::is_same_v<D, float>) {
    in_pieces(n, [&](size_t i, size_t m, float* piece) {
      convert<Half, float>(s + i, piece, m);
      convert<float, D>(piece, d + i, m);
    });
  } else if constexpr (kHalfInstructions && std::is_same_v<D, Half> && !std::is_same_v<S, float> && !is_complex_v<S>) {
    in_pieces(n, [&](size_t i, size_t m, float* piece) {
      if constexpr (std::is_same_v<S, Bool8>) convert<Bool8, float>(s + i, piece, m);
      else FACULA_VECTOR_LOOP for (size_t k = 0; k < m; ++k) piece[k] = float_for<Half>(widen(s[i + k]));
      convert<float, Half>(piece, d + i, m);
    });
  } else {
    FACULA_VECTOR_LOOP
    for (size_t i = 0; i < n; ++i) d[i] = narrow<D>(exact_float_or_same<D>(s[i]));
  }
}

template <class S>
constexpr void fill_row(ConvertFn (&row)[kNumScalarTypes]) {
#define FACULA_ENTRY(cpp, name, text) row[static_cast<int>(ScalarType::name)] = &convert<S, Memory<ScalarType::name>>;
  FACULA_FORALL_SCALAR_TYPES(FACULA_ENTRY)
#undef FACULA_ENTRY
}

template <class S, ScalarType... to>
constexpr void add_direct(ConvertTable& table) {
  ((table.direct[static_cast<int>(scalar_type_of<S>())][static_cast<int>(to)] = &convert<S, Memory<to>>), ...);
}

template <class T>
constexpr ConvertFn load_entry() {
  return &convert<T, decltype(widen(T{}))>;
}
template <>
constexpr ConvertFn load_entry<complex<Half>>() {
  return &convert<complex<Half>, complex<float>>;
}

constexpr ConvertTable make_table() {
  ConvertTable t{};
#define FACULA_ENTRY(cpp, name, text) \
  t.load[static_cast<int>(ScalarType::name)] = load_entry<Memory<ScalarType::name>>();
  FACULA_FORALL_SCALAR_TYPES(FACULA_ENTRY)
#undef FACULA_ENTRY
  fill_row<float>(t.cast_store[static_cast<int>(CType::F32)]);
  fill_row<double>(t.cast_store[static_cast<int>(CType::F64)]);
  fill_row<int32_t>(t.cast_store[static_cast<int>(CType::I32)]);
  fill_row<int64_t>(t.cast_store[static_cast<int>(CType::I64)]);
  fill_row<uint64_t>(t.cast_store[static_cast<int>(CType::U64)]);
  fill_row<Bool8>(t.cast_store[static_cast<int>(CType::B8)]);
  fill_row<complex<float>>(t.cast_store[static_cast<int>(CType::C64)]);
  fill_row<complex<double>>(t.cast_store[static_cast<int>(CType::C128)]);
  // The pairs that models and image pipelines meet; the rest goes in two steps.
  add_direct<uint8_t, kFloat, kHalf, kBFloat16, kLong, kDouble>(t);
  add_direct<int8_t, kFloat, kHalf, kBFloat16, kLong>(t);
  add_direct<int16_t, kFloat>(t);
  add_direct<uint16_t, kFloat>(t);
  add_direct<uint32_t, kFloat>(t);
  add_direct<Half, kBFloat16, kDouble, kLong>(t);
  add_direct<BFloat16, kHalf, kDouble, kLong>(t);
  return t;
}

}  // namespace

const ConvertTable* table() {
  static constexpr ConvertTable kTable = make_table();
  return &kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace facula::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula::detail {

HWY_EXPORT(table);

const ConvertTable& convert_table() {
  static const ConvertTable* const kBest = HWY_DYNAMIC_DISPATCH(table)();
  return *kBest;
}

}  // namespace facula::detail
#endif
