// The number types C++ lacks: Half, BFloat16, Float8_e4m3fn, Float8_e5m2 and a complex<T> that works with them.
// Value types with their bits in the open; whole-array conversions live in src/cpu/convert.h.
#pragma once

#include <bit>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <type_traits>

namespace facula {

namespace detail {

// Nearest float to the exact value of `d`, except that an inexact result takes the neighbour with an odd last bit. A
// second rounding to a format at least two bits shorter then gives what one rounding of `d` would.
constexpr float round_to_odd(double d) {
  const float nearest = static_cast<float>(d);
  const double back = static_cast<double>(nearest);
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const uint64_t want = std::bit_cast<uint64_t>(d) & 0x7fff'ffff'ffff'ffffu;
  const uint64_t have = std::bit_cast<uint64_t>(back) & 0x7fff'ffff'ffff'ffffu;
  const bool move = back != d && d == d && (bits & 1u) == 0;
  bits += move ? (have < want ? 1u : ~0u) : 0u;
  return std::bit_cast<float>(bits);
}

// The same for an integer that may need more than the 53 bits a double has.
constexpr double round_to_odd(uint64_t u) {
  const uint64_t sticky = static_cast<uint64_t>((u & 0x7ffu) != 0) << 11;
  return static_cast<double>((u >> 53) != 0 ? ((u & ~uint64_t{0x7ff}) | sticky) : u);
}

constexpr double round_to_odd(int64_t i) {
  const uint64_t magnitude = i < 0 ? 0 - static_cast<uint64_t>(i) : static_cast<uint64_t>(i);
  const double d = round_to_odd(magnitude);
  return i < 0 ? -d : d;
}

// Conversions between float and a format with a sign, `E` exponent and `M` mantissa bits. `HasInf` says whether the
// top exponent holds infinity and NaNs (IEEE) or only its last pattern is special, a NaN (the "fn" formats). Written
// without branches on data that a compiler could not turn into selects, so loops over them vectorise.
template <int E, int M, bool HasInf>
struct SmallFloat {
  static constexpr int kBias = (1 << (E - 1)) - 1;
  static constexpr int kShift = 23 - M;
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias);
  static constexpr uint32_t kMagnitude = (1u << (E + M)) - 1;
  static constexpr uint32_t kOverflow = HasInf ? ((1u << E) - 1) << M : kMagnitude;
  static constexpr uint32_t kMinNormal = (kRebias + 1) << 23;

  static constexpr uint32_t from_float(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const uint32_t sign = (u >> 31) << (E + M);
    const uint32_t a = u & 0x7fff'ffffu;
    uint32_t normal = ((a + ((1u << (kShift - 1)) - 1) + ((a >> kShift) & 1u)) >> kShift) - (kRebias << M);
    normal = normal < kOverflow ? normal : kOverflow;
    // Below the smallest normal, adding a number whose last bit is worth one subnormal step makes the adder round.
    constexpr float kMagic = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias - M + 23) << 23);
    const float small = std::bit_cast<float>(a < kMinNormal ? a : 0u);
    const uint32_t subnormal = std::bit_cast<uint32_t>(small + kMagic) - std::bit_cast<uint32_t>(kMagic);
    uint32_t nan = kMagnitude;
    if constexpr (M == 10) nan = kOverflow | 0x200u | ((a >> kShift) & 0x3ffu);  // keeps the payload, as F16C does
    uint32_t r = a < kMinNormal ? subnormal : normal;
    r = a > 0x7f80'0000u ? nan : r;
    return sign | r;
  }

  static constexpr float to_float(uint32_t bits) {
    const uint32_t sign = (bits >> (E + M)) << 31;
    const uint32_t a = bits & kMagnitude;
    const uint32_t fraction = a & ((1u << M) - 1);
    constexpr float kStep = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias - M) << 23);
    // Through a signed integer: every instruction set converts that one to float.
    const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(fraction)) * kStep);
    uint32_t r = a < (1u << M) ? subnormal : (a << kShift) + (kRebias << 23);
    if constexpr (HasInf) {
      const uint32_t special = 0x7f80'0000u | (fraction << kShift) | (fraction != 0 ? 0x40'0000u : 0u);
      r = a >= kOverflow ? special : r;
    } else {
      r = a == kMagnitude ? 0x7fc0'0000u : r;
    }
    return std::bit_cast<float>(sign | r);
  }
};

struct HalfFormat : SmallFloat<5, 10, true> {
  using Bits = uint16_t;
};

struct Float8E5M2Format : SmallFloat<5, 2, true> {
  using Bits = uint8_t;
};

struct Float8E4M3FnFormat : SmallFloat<4, 3, false> {
  using Bits = uint8_t;
};

struct BFloat16Format {
  using Bits = uint16_t;
  static constexpr uint32_t from_float(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t nan = (u >> 16) | 0x40u;
    return (u & 0x7fff'ffffu) > 0x7f80'0000u ? nan : rounded;
  }
  static constexpr float to_float(uint32_t bits) { return std::bit_cast<float>(bits << 16); }
};

}  // namespace detail

// A float stored in 8 or 16 bits. Numbers are rounded once, to nearest with ties to even, from whatever type they
// come; arithmetic is done in float and rounded. Overflow gives infinity, and NaN where the format has no infinity.
template <class Format>
struct NarrowFloat {
  using Bits = typename Format::Bits;
  struct from_bits_t {};

  Bits x;

  NarrowFloat() = default;
  constexpr NarrowFloat(Bits bits, from_bits_t) : x(bits) {}
  constexpr NarrowFloat(float value)
      : x(static_cast<Bits>(Format::from_float(value))) {}  // NOLINT: implicit as in libtorch
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, float>)
  constexpr NarrowFloat(T value) : x(from_number(value)) {}  // NOLINT: implicit as in libtorch

  static constexpr from_bits_t from_bits() { return {}; }
  static constexpr NarrowFloat of_bits(unsigned bits) { return NarrowFloat(static_cast<Bits>(bits), from_bits_t{}); }

  constexpr operator float() const { return Format::to_float(x); }  // NOLINT: implicit as in libtorch

  constexpr NarrowFloat operator-() const { return of_bits(x ^ (1u << (8 * sizeof(Bits) - 1))); }
  constexpr NarrowFloat operator+() const { return *this; }
  constexpr NarrowFloat& operator+=(NarrowFloat o) { return *this = NarrowFloat(float(*this) + float(o)); }
  constexpr NarrowFloat& operator-=(NarrowFloat o) { return *this = NarrowFloat(float(*this) - float(o)); }
  constexpr NarrowFloat& operator*=(NarrowFloat o) { return *this = NarrowFloat(float(*this) * float(o)); }
  constexpr NarrowFloat& operator/=(NarrowFloat o) { return *this = NarrowFloat(float(*this) / float(o)); }

 private:
  template <class T>
  static constexpr Bits from_number(T value) {
    float f;
    if constexpr (std::is_floating_point_v<T>) {
      f = detail::round_to_odd(static_cast<double>(value));
    } else if constexpr (std::is_signed_v<T>) {
      f = detail::round_to_odd(detail::round_to_odd(static_cast<int64_t>(value)));
    } else {
      f = detail::round_to_odd(detail::round_to_odd(static_cast<uint64_t>(value)));
    }
    return static_cast<Bits>(Format::from_float(f));
  }
};

using Half = NarrowFloat<detail::HalfFormat>;
using BFloat16 = NarrowFloat<detail::BFloat16Format>;
using Float8_e5m2 = NarrowFloat<detail::Float8E5M2Format>;
using Float8_e4m3fn = NarrowFloat<detail::Float8E4M3FnFormat>;

template <class T>
inline constexpr bool is_narrow_float_v = false;
template <class Format>
inline constexpr bool is_narrow_float_v<NarrowFloat<Format>> = true;

namespace detail {
// With a float or double the other side decides; with an integer the narrow float does.
template <class N, class A>
using mixed_t = std::conditional_t<std::is_floating_point_v<A>, A, N>;
}  // namespace detail

#define FACULA_NARROW_OPERATOR(op)                                           \
  template <class F>                                                         \
  constexpr NarrowFloat<F> operator op(NarrowFloat<F> a, NarrowFloat<F> b) { \
    return NarrowFloat<F>(float(a) op float(b));                             \
  }                                                                          \
  template <class F, class A>                                                \
    requires std::is_arithmetic_v<A>                                         \
  constexpr auto operator op(NarrowFloat<F> a, A b) {                        \
    using R = detail::mixed_t<NarrowFloat<F>, A>;                            \
    return static_cast<R>(static_cast<R>(a) op static_cast<R>(b));           \
  }                                                                          \
  template <class F, class A>                                                \
    requires std::is_arithmetic_v<A>                                         \
  constexpr auto operator op(A a, NarrowFloat<F> b) {                        \
    using R = detail::mixed_t<NarrowFloat<F>, A>;                            \
    return static_cast<R>(static_cast<R>(a) op static_cast<R>(b));           \
  }
FACULA_NARROW_OPERATOR(+)
FACULA_NARROW_OPERATOR(-)
FACULA_NARROW_OPERATOR(*)
FACULA_NARROW_OPERATOR(/)
#undef FACULA_NARROW_OPERATOR

template <class T>
struct complex;

namespace detail {
// std::complex<T> and what looks like it, recognised by shape so that <complex> need not be included here.
template <class C>
concept ComplexLike = requires(const C& c) {
                        typename C::value_type;
                        c.real();
                        c.imag();
                      } && std::is_constructible_v<C, typename C::value_type, typename C::value_type>;
template <class T>
inline constexpr bool is_complex_v = false;
template <class T>
inline constexpr bool is_complex_v<complex<T>> = true;
template <class T>
concept Real = std::is_arithmetic_v<T> || is_narrow_float_v<T>;
}  // namespace detail

// Real and imaginary part side by side, laid out like std::complex and converting from and to it.
template <class T>
struct alignas(2 * sizeof(T)) complex {
  using value_type = T;

  T real_ = T(0.0f);
  T imag_ = T(0.0f);

  constexpr complex() = default;
  constexpr complex(T re, T im = T(0.0f)) : real_(re), imag_(im) {}  // NOLINT: implicit as std::complex
  template <class U>
    requires(!std::is_same_v<U, T>)
  constexpr explicit(sizeof(U) > sizeof(T)) complex(const complex<U>& o)
      : real_(static_cast<T>(o.real_)), imag_(static_cast<T>(o.imag_)) {}
  template <detail::ComplexLike C>
    requires(!detail::is_complex_v<C>)
  constexpr explicit(sizeof(typename C::value_type) > sizeof(T)) complex(const C& o)
      : real_(static_cast<T>(o.real())), imag_(static_cast<T>(o.imag())) {}

  template <detail::ComplexLike C>
    requires(!detail::is_complex_v<C> && std::is_same_v<typename C::value_type, T>)
  constexpr operator C() const {  // NOLINT: implicit as in libtorch
    return C(real_, imag_);
  }

  constexpr T real() const { return real_; }
  constexpr T imag() const { return imag_; }
  constexpr void real(T value) { real_ = value; }
  constexpr void imag(T value) { imag_ = value; }

  constexpr complex operator-() const { return {-real_, -imag_}; }
  constexpr complex operator+() const { return *this; }

  constexpr complex& operator+=(const complex& o) { return *this = complex(real_ + o.real_, imag_ + o.imag_); }
  constexpr complex& operator-=(const complex& o) { return *this = complex(real_ - o.real_, imag_ - o.imag_); }
  constexpr complex& operator*=(const complex& o) {
    return *this = complex(real_ * o.real_ - imag_ * o.imag_, real_ * o.imag_ + imag_ * o.real_);
  }
  // Divides through by the larger part of the divisor first, so that its square cannot overflow.
  constexpr complex& operator/=(const complex& o) {
    const T c = o.real_ < T(0.0f) ? -o.real_ : o.real_;
    const T d = o.imag_ < T(0.0f) ? -o.imag_ : o.imag_;
    if (c == T(0.0f) && d == T(0.0f)) return *this = complex(real_ / c, imag_ / c);
    if (c >= d) {
      const T ratio = o.imag_ / o.real_;
      const T scale = o.real_ + o.imag_ * ratio;
      return *this = complex((real_ + imag_ * ratio) / scale, (imag_ - real_ * ratio) / scale);
    }
    const T ratio = o.real_ / o.imag_;
    const T scale = o.real_ * ratio + o.imag_;
    return *this = complex((real_ * ratio + imag_) / scale, (imag_ * ratio - real_) / scale);
  }
  constexpr complex& operator+=(T o) { return *this = complex(real_ + o, imag_); }
  constexpr complex& operator-=(T o) { return *this = complex(real_ - o, imag_); }
  constexpr complex& operator*=(T o) { return *this = complex(real_ * o, imag_ * o); }
  constexpr complex& operator/=(T o) { return *this = complex(real_ / o, imag_ / o); }

  // A real number on one side is converted to T, so `2 * z` and `z + 0.5` keep z's type.
#define FACULA_COMPLEX_OPERATOR(op)                                                        \
  friend constexpr complex operator op(complex a, const complex& b) { return a op## = b; } \
  template <detail::Real R>                                                                \
  friend constexpr complex operator op(complex a, R b) {                                   \
    return a op## = static_cast<T>(b);                                                     \
  }                                                                                        \
  template <detail::Real R>                                                                \
  friend constexpr complex operator op(R a, const complex& b) {                            \
    return complex(static_cast<T>(a)) op## = b;                                            \
  }
  FACULA_COMPLEX_OPERATOR(+)
  FACULA_COMPLEX_OPERATOR(-)
  FACULA_COMPLEX_OPERATOR(*)
  FACULA_COMPLEX_OPERATOR(/)
#undef FACULA_COMPLEX_OPERATOR

  friend constexpr bool operator==(const complex& a, const complex& b) {
    return a.real_ == b.real_ && a.imag_ == b.imag_;
  }
  template <detail::Real R>
  friend constexpr bool operator==(const complex& a, R b) {
    return a.real_ == static_cast<T>(b) && a.imag_ == T(0.0f);
  }
};

template <class T>
constexpr T real(const complex<T>& z) {
  return z.real_;
}
template <class T>
constexpr T imag(const complex<T>& z) {
  return z.imag_;
}
template <class T>
constexpr complex<T> conj(const complex<T>& z) {
  return {z.real_, -z.imag_};
}
// The squared magnitude, as std::norm.
template <class T>
constexpr T norm(const complex<T>& z) {
  return z.real_ * z.real_ + z.imag_ * z.imag_;
}
template <class T>
T abs(const complex<T>& z) {
  if constexpr (std::is_same_v<T, double>) return __builtin_hypot(z.real_, z.imag_);
  else return static_cast<T>(__builtin_hypotf(static_cast<float>(z.real_), static_cast<float>(z.imag_)));
}
template <class T>
T arg(const complex<T>& z) {
  if constexpr (std::is_same_v<T, double>) return __builtin_atan2(z.imag_, z.real_);
  else return static_cast<T>(__builtin_atan2f(static_cast<float>(z.imag_), static_cast<float>(z.real_)));
}

template <class T, class Char, class Traits>
std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& os, const complex<T>& z) {
  return os << '(' << z.real() << ',' << z.imag() << ')';
}

template <class T>
inline constexpr bool is_complex_v = detail::is_complex_v<T>;

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2 && sizeof(Float8_e5m2) == 1 && sizeof(Float8_e4m3fn) == 1);
static_assert(std::is_trivially_copyable_v<Half> && std::is_trivially_default_constructible_v<Half>);
static_assert(sizeof(complex<Half>) == 4 && sizeof(complex<float>) == 8 && sizeof(complex<double>) == 16);

}  // namespace facula

namespace facula::detail {

template <class N, int MantissaBits, int MinExponent, int MaxExponent, unsigned Max, unsigned Inf, unsigned Nan,
          unsigned One>
struct NarrowLimits {
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool has_infinity = Inf != 0;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = false;
  static constexpr bool is_iec559 = false;  // arithmetic is float's, rounded
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool traps = false;
  static constexpr bool tinyness_before = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2;
  static constexpr int digits = MantissaBits + 1;
  static constexpr int digits10 = static_cast<int>(MantissaBits * 0.30103);
  static constexpr int max_digits10 = static_cast<int>(2 + (MantissaBits + 1) * 0.30103);
  static constexpr int min_exponent = MinExponent;
  static constexpr int max_exponent = MaxExponent;
  static constexpr int min_exponent10 = static_cast<int>((MinExponent - 1) * 0.30103);
  static constexpr int max_exponent10 = static_cast<int>(MaxExponent * 0.30103);
  static constexpr N min() { return N::of_bits(1u << MantissaBits); }
  static constexpr N lowest() { return -max(); }
  static constexpr N max() { return N::of_bits(Max); }
  static constexpr N epsilon() { return N::of_bits(One - (static_cast<unsigned>(MantissaBits) << MantissaBits)); }
  static constexpr N round_error() { return N(0.5f); }
  static constexpr N denorm_min() { return N::of_bits(1); }
  static constexpr N infinity() { return N::of_bits(Inf); }
  static constexpr N quiet_NaN() { return N::of_bits(Nan); }
  static constexpr N signaling_NaN() { return N::of_bits(Nan); }
};

}  // namespace facula::detail

template <>
class std::numeric_limits<facula::Half>
    : public facula::detail::NarrowLimits<facula::Half, 10, -13, 16, 0x7bff, 0x7c00, 0x7e00, 0x3c00> {};
template <>
class std::numeric_limits<facula::BFloat16>
    : public facula::detail::NarrowLimits<facula::BFloat16, 7, -125, 128, 0x7f7f, 0x7f80, 0x7fc0, 0x3f80> {};
template <>
class std::numeric_limits<facula::Float8_e5m2>
    : public facula::detail::NarrowLimits<facula::Float8_e5m2, 2, -13, 16, 0x7b, 0x7c, 0x7f, 0x3c> {};
template <>
class std::numeric_limits<facula::Float8_e4m3fn>
    : public facula::detail::NarrowLimits<facula::Float8_e4m3fn, 3, -5, 9, 0x7e, 0, 0x7f, 0x38> {};
