// What memory holds and what kernels compute in: one Memory<DType> for each dtype, casts between compute types, and packs of
// neighbouring elements that travel in accesses of up to 16 bytes. Every conversion gives the CPU's bits (cpu/convert.h).
#pragma once

#include "gpu/kernels/device.h"

namespace facula {

// The names of ScalarType.
enum class DType {
  Byte,
  Char,
  Short,
  Int,
  Long,
  Half,
  Float,
  Double,
  ComplexHalf,
  ComplexFloat,
  ComplexDouble,
  Bool,
  BFloat16,
  Float8_e5m2,
  Float8_e4m3fn,
  UInt16,
  UInt32,
  UInt64
};

// The names of CType, and the types that they are.
enum class CType { F32, F64, I32, I64, U64, B8, C64, C128 };
template <CType t>
struct ValueOf;
#define FACULA_VALUE(name, cpp) \
  template <>                   \
  struct ValueOf<CType::name> { \
    using type = cpp;           \
  };
FACULA_VALUE(F32, float)
FACULA_VALUE(F64, double)
FACULA_VALUE(I32, int32_t)
FACULA_VALUE(I64, int64_t)
FACULA_VALUE(U64, uint64_t)
FACULA_VALUE(B8, uint8_t)
FACULA_VALUE(C64, Complex<float>)
FACULA_VALUE(C128, Complex<double>)
#undef FACULA_VALUE

template <class T>
inline constexpr bool kIsComplex = expr::lane_traits<T>::kComplex;
// B8, a byte that is 0 or 1, is the only compute type of one byte.
template <class T>
inline constexpr bool kIsBool = kSame<T, uint8_t>;
template <class T>
inline constexpr bool kIsFloat = kSame<T, float> || kSame<T, double>;

// ---- rounding -----------------------------------------------------------------------------------------------------------------

// The nearest float, except that an inexact result takes the neighbour with an odd last bit: a second rounding to a shorter format
// then gives what one rounding would.
FACULA_DEVICE float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  uint32_t bits = float_bits(nearest);
  const uint64_t want = double_bits(x) & 0x7fffffffffffffffull, have = double_bits(back) & 0x7fffffffffffffffull;
  const bool move = back != x && x == x && (bits & 1u) == 0;
  bits += move ? (have < want ? 1u : ~0u) : 0u;
  return float_of_bits(bits);
}
FACULA_DEVICE double round_to_odd(uint64_t x) {
  const uint64_t sticky = static_cast<uint64_t>((x & 0x7ffull) != 0) << 11;
  return static_cast<double>((x >> 53) != 0 ? ((x & ~0x7ffull) | sticky) : x);
}
FACULA_DEVICE double round_to_odd(int64_t x) {
  const double magnitude = round_to_odd(x < 0 ? 0ull - static_cast<uint64_t>(x) : static_cast<uint64_t>(x));
  return x < 0 ? -magnitude : magnitude;
}

// A format with a sign, E exponent and M mantissa bits; kInfinity says whether the top exponent holds infinity and NaNs, or only
// its last pattern is special.
template <int E, int M, bool kInfinity>
struct SmallFloat {
  static constexpr int kBias = (1 << (E - 1)) - 1;
  static constexpr int kShift = 23 - M;
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias);
  static constexpr uint32_t kMagnitude = (1u << (E + M)) - 1;
  static constexpr uint32_t kOverflow = kInfinity ? ((1u << E) - 1) << M : kMagnitude;
  static constexpr uint32_t kMinNormal = (kRebias + 1) << 23;

  static FACULA_DEVICE uint32_t from_float(float x) {
    const uint32_t u = float_bits(x), sign = (u >> 31) << (E + M), a = u & 0x7fffffffu;
    uint32_t normal = ((a + ((1u << (kShift - 1)) - 1) + ((a >> kShift) & 1u)) >> kShift) - (kRebias << M);
    normal = normal < kOverflow ? normal : kOverflow;
    // Below the smallest normal, adding a number whose last bit is worth one subnormal step makes the adder round.
    constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 1 - kBias - M + 23) << 23;
    const float small = float_of_bits(a < kMinNormal ? a : 0u);
    const uint32_t subnormal = float_bits(small + float_of_bits(kMagic)) - kMagic;
    uint32_t r = a < kMinNormal ? subnormal : normal;
    r = a > 0x7f800000u ? nan_of(a) : r;
    return sign | r;
  }
  // Of the magnitude of a float that is NaN. Half precision keeps the payload.
  static FACULA_DEVICE uint32_t nan_of(uint32_t a) {
    if constexpr (M == 10) return kOverflow | 0x200u | ((a >> kShift) & 0x3ffu);
    else return kMagnitude;
  }
  // A float that is NaN or beyond the largest number.
  static FACULA_DEVICE uint32_t special_from_float(float x) {
    const uint32_t u = float_bits(x), a = u & 0x7fffffffu;
    return (u >> 31) << (E + M) | (a > 0x7f800000u ? nan_of(a) : kOverflow);
  }
  // A NaN.
  static FACULA_DEVICE float special_to_float(uint32_t bits) {
    const uint32_t payload = kInfinity ? (bits & ((1u << M) - 1)) << kShift : 0u;
    return float_of_bits((bits >> (E + M)) << 31 | 0x7fc00000u | payload);
  }
  static FACULA_DEVICE float to_float(uint32_t bits) {
    const uint32_t sign = (bits >> (E + M)) << 31, a = bits & kMagnitude, fraction = a & ((1u << M) - 1);
    constexpr uint32_t kStep = static_cast<uint32_t>(127 + 1 - kBias - M) << 23;
    const uint32_t subnormal = float_bits(static_cast<float>(static_cast<int32_t>(fraction)) * float_of_bits(kStep));
    uint32_t r = a < (1u << M) ? subnormal : (a << kShift) + (kRebias << 23);
    if constexpr (kInfinity) {
      const uint32_t special = 0x7f800000u | (fraction << kShift) | (fraction != 0 ? 0x400000u : 0u);
      r = a >= kOverflow ? special : r;
    } else {
      r = a == kMagnitude ? 0x7fc00000u : r;
    }
    return float_of_bits(sign | r);
  }
};

// Each narrow format also converts packs: all of its elements by the hardware, which rounds alike, and only where one of them is NaN
// or overflows, where bits would differ, those elements again. FACULA_PTX tells what the hardware has.
#if FACULA_PTX
FACULA_DEVICE void halves_to_floats(uint32_t pair, float& low, float& high) {
  asm("cvt.f32.f16 %0, %1;" : "=f"(low) : "h"(static_cast<uint16_t>(pair)));
  asm("cvt.f32.f16 %0, %1;" : "=f"(high) : "h"(static_cast<uint16_t>(pair >> 16)));
}
#endif
struct HalfFormat : SmallFloat<5, 10, true> {
  using Bits = uint16_t;
#if FACULA_HIP && !defined(SIMGPU)
  static FACULA_DEVICE uint32_t from_float(float x) {
    const uint32_t half = bits_as<uint16_t>(static_cast<_Float16>(x)), u = float_bits(x);
    return x == x ? half : ((u >> 31) << 15) | nan_of(u & 0x7fffffffu);
  }
  static FACULA_DEVICE float to_float(uint32_t bits) {
    const float x = static_cast<float>(bits_as<_Float16>(static_cast<uint16_t>(bits)));
    const uint32_t nan = ((bits & 0x8000u) << 16) | 0x7fc00000u | ((bits & 0x3ffu) << 13);
    return x == x ? x : float_of_bits(nan);
  }
#endif
#if FACULA_PTX >= 800
  static constexpr bool kPairs = true;
  static FACULA_DEVICE bool differs(float x) { return x != x; }
  static FACULA_DEVICE uint32_t pair_from_floats(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
  // Of two elements: whether one is NaN.
  static FACULA_DEVICE bool differs_in(uint32_t pair) {
    return (((pair & 0x7fff7fffu) + 0x03ff03ffu) & 0x80008000u) != 0;
  }
  static FACULA_DEVICE void pair_to_floats(uint32_t pair, float& low, float& high) {
    halves_to_floats(pair, low, high);
  }
#else
  static constexpr bool kPairs = false;
#endif
};
struct BFloat16Format {
  using Bits = uint16_t;
  static FACULA_DEVICE uint32_t from_float(float x) {
    const uint32_t u = float_bits(x);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return x == x ? rounded : (u >> 16) | 0x40u;
  }
  static FACULA_DEVICE float to_float(uint32_t bits) { return float_of_bits(bits << 16); }
#if FACULA_PTX >= 800
  static constexpr bool kPairs = true;
  static FACULA_DEVICE bool differs(float x) { return x != x; }
  static FACULA_DEVICE uint32_t special_from_float(float x) { return float_bits(x) >> 16 | 0x40u; }
  static FACULA_DEVICE float special_to_float(uint32_t bits) { return to_float(bits); }
  static FACULA_DEVICE uint32_t pair_from_floats(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
  static FACULA_DEVICE bool differs_in(uint32_t) { return false; }
  static FACULA_DEVICE void pair_to_floats(uint32_t pair, float& low, float& high) {
    low = float_of_bits(pair << 16);
    high = float_of_bits(pair & 0xffff0000u);
  }
#else
  static constexpr bool kPairs = false;
#endif
};
struct Float8E5M2Format : SmallFloat<5, 2, true> {
  using Bits = uint8_t;
#if FACULA_PTX >= 890
  static constexpr bool kPairs = true;
  // The hardware saturates where this format has infinity.
  static FACULA_DEVICE bool differs(float x) { return !(expr::m::abs(x) < 61440.0f); }
  static FACULA_DEVICE uint32_t pair_from_floats(float low, float high) {
    uint16_t pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
  }
  static FACULA_DEVICE bool differs_in(uint32_t pair) { return (((pair & 0x7f7fu) + 0x0303u) & 0x8080u) != 0; }
  // Each is the upper half of a number of half precision.
  static FACULA_DEVICE void pair_to_floats(uint32_t pair, float& low, float& high) {
    halves_to_floats((pair & 0xff00u) << 16 | (pair & 0xffu) << 8, low, high);
  }
#else
  static constexpr bool kPairs = false;
#endif
};
struct Float8E4M3FnFormat : SmallFloat<4, 3, false> {
  using Bits = uint8_t;
#if FACULA_PTX >= 890
  static constexpr bool kPairs = true;
  static FACULA_DEVICE bool differs(float x) { return !(expr::m::abs(x) <= 464.0f); }
  static FACULA_DEVICE uint32_t pair_from_floats(float low, float high) {
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
  }
  static FACULA_DEVICE bool differs_in(uint32_t pair) { return (((pair & 0x7f7fu) + 0x0101u) & 0x8080u) != 0; }
  static FACULA_DEVICE void pair_to_floats(uint32_t pair, float& low, float& high) {
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
    halves_to_floats(halves, low, high);
  }
#else
  static constexpr bool kPairs = false;
#endif
};

// ---- casts between compute types ----------------------------------------------------------------------------------------------

// Truncation where it fits, the smallest integer otherwise and for NaN.
template <class I, class F>
FACULA_DEVICE I truncate(F x) {
  constexpr F kLow = sizeof(I) == 4 ? F(-2147483648.0) : F(-9223372036854775808.0);
  constexpr I kLeast = static_cast<I>(I(1) << (sizeof(I) * 8 - 2)) * -2;
  const bool fits = x >= kLow && x < -kLow;
  const I i = static_cast<I>(fits ? x : F(0));
  return fits ? i : kLeast;
}
template <class F>
FACULA_DEVICE uint64_t truncate_unsigned(F x) {
  constexpr F kHalfWay = F(9223372036854775808.0);
  const bool upper = x >= kHalfWay && x < 2 * kHalfWay;
  const uint64_t low = static_cast<uint64_t>(truncate<int64_t>(upper ? x - kHalfWay : x));
  return upper ? low ^ (1ull << 63) : low;
}

template <class To, class From>
FACULA_DEVICE To cast(From x) {
  if constexpr (kSame<To, From>) {
    return x;
  } else if constexpr (kIsComplex<To>) {
    using R = typename expr::lane_traits<To>::Real;
    if constexpr (kIsComplex<From>) return {cast<R>(x.re), cast<R>(x.im)};
    else return {cast<R>(x), R(0)};
  } else if constexpr (kIsComplex<From>) {
    if constexpr (kIsBool<To>) return static_cast<uint8_t>((x.re != 0) | (x.im != 0));
    else return cast<To>(x.re);
  } else if constexpr (kIsBool<To>) {
    return static_cast<uint8_t>(x != From(0));
  } else if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    if constexpr (kSame<To, uint64_t>) return truncate_unsigned(x);
    else return truncate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// ---- memory -------------------------------------------------------------------------------------------------------------------

// load: bits to the natural compute type. store: from any compute type, rounding once.
template <class B, class C>
struct IntegerMemory {
  static constexpr bool kPairs = false;
  using Bits = B;
  using Compute = C;
  static FACULA_DEVICE C load(B bits) { return static_cast<C>(bits); }
  template <class S>
  static FACULA_DEVICE B store(S x) {
    if constexpr (kIsComplex<S>) return store(x.re);
    else if constexpr (kIsFloat<S> && kSame<B, uint64_t>) return truncate_unsigned(x);
    else if constexpr (kIsFloat<S>) return static_cast<B>(truncate<C>(x));
    else return static_cast<B>(x);
  }
};

template <class C>
struct FloatMemory {
  static constexpr bool kPairs = false;
  using Bits = C;
  using Compute = C;
  static FACULA_DEVICE C load(C bits) { return bits; }
  template <class S>
  static FACULA_DEVICE C store(S x) {
    return cast<C>(x);
  }
};

template <class Format>
struct NarrowMemory : Format {
  using Bits = typename Format::Bits;
  using Compute = float;
  static FACULA_DEVICE float load(Bits bits) { return Format::to_float(bits); }
  template <class S>
  static FACULA_DEVICE Bits store(S x) {
    if constexpr (kIsComplex<S>) return store(x.re);
    else if constexpr (kSame<S, double>) return static_cast<Bits>(Format::from_float(round_to_odd(x)));
    // Integers that float does not hold are beyond the range of every narrow format but bfloat16.
    else if constexpr (kIsFloat<S> || kIsBool<S> || !kSame<Format, BFloat16Format>)
      return static_cast<Bits>(Format::from_float(static_cast<float>(x)));
    else if constexpr (kSame<S, int32_t>)
      return static_cast<Bits>(Format::from_float(round_to_odd(static_cast<double>(x))));
    else return static_cast<Bits>(Format::from_float(round_to_odd(round_to_odd(x))));
  }
};

// Part is the Memory of one part.
template <class Part>
struct ComplexMemory {
  static constexpr bool kPairs = false;
  using Bits = Complex<typename Part::Bits>;
  using Compute = Complex<typename Part::Compute>;
  static FACULA_DEVICE Compute load(Bits bits) { return {Part::load(bits.re), Part::load(bits.im)}; }
  template <class S>
  static FACULA_DEVICE Bits store(S x) {
    if constexpr (kIsComplex<S>) return {Part::store(x.re), Part::store(x.im)};
    else return {Part::store(x), Part::store(0.0f)};
  }
};

struct BoolMemory {
  static constexpr bool kPairs = false;
  using Bits = uint8_t;
  using Compute = uint8_t;
  static FACULA_DEVICE uint8_t load(uint8_t bits) { return static_cast<uint8_t>(bits != 0); }
  template <class S>
  static FACULA_DEVICE uint8_t store(S x) {
    return cast<uint8_t>(x);
  }
};

template <DType t>
struct Memory;
#define FACULA_MEMORY(name, ...) \
  template <>                    \
  struct Memory<DType::name> : __VA_ARGS__ {};
FACULA_MEMORY(Byte, IntegerMemory<uint8_t, int32_t>)
FACULA_MEMORY(Char, IntegerMemory<int8_t, int32_t>)
FACULA_MEMORY(Short, IntegerMemory<int16_t, int32_t>)
FACULA_MEMORY(Int, IntegerMemory<int32_t, int32_t>)
FACULA_MEMORY(Long, IntegerMemory<int64_t, int64_t>)
FACULA_MEMORY(UInt16, IntegerMemory<uint16_t, int32_t>)
FACULA_MEMORY(UInt32, IntegerMemory<uint32_t, int64_t>)
FACULA_MEMORY(UInt64, IntegerMemory<uint64_t, uint64_t>)
FACULA_MEMORY(Bool, BoolMemory)
FACULA_MEMORY(Float, FloatMemory<float>)
FACULA_MEMORY(Double, FloatMemory<double>)
FACULA_MEMORY(Half, NarrowMemory<HalfFormat>)
FACULA_MEMORY(BFloat16, NarrowMemory<BFloat16Format>)
FACULA_MEMORY(Float8_e5m2, NarrowMemory<Float8E5M2Format>)
FACULA_MEMORY(Float8_e4m3fn, NarrowMemory<Float8E4M3FnFormat>)
FACULA_MEMORY(ComplexHalf, ComplexMemory<NarrowMemory<HalfFormat>>)
FACULA_MEMORY(ComplexFloat, ComplexMemory<FloatMemory<float>>)
FACULA_MEMORY(ComplexDouble, ComplexMemory<FloatMemory<double>>)
#undef FACULA_MEMORY

// ---- packs --------------------------------------------------------------------------------------------------------------------

#if defined(SIMGPU)
struct alignas(16) Word16 {
  uint32_t x, y, z, w;
};
struct alignas(8) Word8 {
  uint32_t x, y;
};
#elif FACULA_HIP
typedef uint32_t Word16 __attribute__((ext_vector_type(4)));
typedef uint32_t Word8 __attribute__((ext_vector_type(2)));
#else
using Word16 = uint4;
using Word8 = uint2;
#endif

template <int kBytes>
struct WordOf {
  using type = Word16;
};
template <>
struct WordOf<1> {
  using type = uint8_t;
};
template <>
struct WordOf<2> {
  using type = uint16_t;
};
template <>
struct WordOf<4> {
  using type = uint32_t;
};
template <>
struct WordOf<8> {
  using type = Word8;
};

// N neighbouring elements, N a power of two, in registers. Read and written in words of up to 16 bytes, to which the address must
// be aligned. Index with constants only: in loops that unroll.
template <class Bits, int N>
struct Pack {
  static constexpr int kBytes = static_cast<int>(sizeof(Bits)) * N;
  using Word = typename WordOf<kBytes>::type;
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));
  // Two elements of up to 16 bits, the first in the lower bits.
  static constexpr bool kHasPairs = N > 1 && sizeof(Bits) <= 2;
  using Pair = typename WordOf<kHasPairs ? 2 * static_cast<int>(sizeof(Bits)) : 1>::type;
  union {
    Bits at[N];
    Word words[kWords];
    Pair pairs[kHasPairs ? N / 2 : 1];
  };
  FACULA_DEVICE Pack() {}
  FACULA_DEVICE void read(const Bits* from) {
    FACULA_UNROLL
    for (int k = 0; k < kWords; ++k) words[k] = reinterpret_cast<const Word*>(from)[k];
  }
  FACULA_DEVICE void write(Bits* to) const {
    FACULA_UNROLL
    for (int k = 0; k < kWords; ++k) reinterpret_cast<Word*>(to)[k] = words[k];
  }
  FACULA_DEVICE void clear() {
    FACULA_UNROLL
    for (int k = 0; k < kWords; ++k) words[k] = Word{};
  }
  // In a loop that unpacks it in every round: compilers would unpack it before the loop, into twice the registers.
  FACULA_DEVICE void stay_packed() {
#if FACULA_PTX
    if constexpr (kHasPairs && sizeof(Pair) == 4) {
      FACULA_UNROLL
      for (int k = 0; k < N / 2; ++k) asm volatile("" : "+r"(pairs[k]));
    }
#endif
  }
};

// The elements of a pack as values, and values of any compute type as a pack. kAnyNan: of formats in which only NaN need care, without it:
// a NaN stays one, with bits that may differ from those on other machines.
template <class M, int N>
FACULA_DEVICE void unpack(const Pack<typename M::Bits, N>& pack, typename M::Compute (&values)[N]) {
  if constexpr (M::kPairs && N > 1) {
    bool again = false;
    FACULA_UNROLL
    for (int e = 0; e < N; e += 2) {
      again |= M::differs_in(pack.pairs[e / 2]);
      M::pair_to_floats(pack.pairs[e / 2], values[e], values[e + 1]);
    }
    if (again) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e)
        if (values[e] != values[e]) values[e] = M::special_to_float(pack.at[e]);
    }
  } else {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) values[e] = M::load(pack.at[e]);
  }
}
template <class M, bool kAnyNan = false, int N, class S>
FACULA_DEVICE void pack_values(const S (&values)[N], Pack<typename M::Bits, N>& pack) {
  using Bits = typename M::Bits;
  if constexpr (M::kPairs && N > 1 && kSame<S, float>) {
    using Pair = typename Pack<Bits, N>::Pair;
    bool again = false;
    FACULA_UNROLL
    for (int e = 0; e < N; e += 2) {
      pack.pairs[e / 2] = static_cast<Pair>(M::pair_from_floats(values[e], values[e + 1]));
      if constexpr (!kAnyNan) again |= M::differs(values[e]) | M::differs(values[e + 1]);
    }
    if (again) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e)
        if (M::differs(values[e])) pack.at[e] = static_cast<Bits>(M::special_from_float(values[e]));
    }
  } else {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) pack.at[e] = M::store(values[e]);
  }
}

}  // namespace facula
