// Random numbers: four words of Philox a block, and the formulas of program/random_bits.h, to the same bits as on the CPU
// (cpu/random.cpp). Element i depends on seed, offset and i alone.
#pragma once

#include "gpu/kernels/memory.h"

#include "core/philox.h"
#include "program/random_bits.h"

namespace facula {

// Where in the stream of a generator to read: known when the kernel is queued, or when the graph is launched that it is part of
// (gpu/graph.h). The keys of a fixed place come from the host: kernels read them like constants.
struct FixedPlace {
  PhiloxKeys round_keys;
  uint64_t first;
  FACULA_DEVICE const PhiloxKeys& keys() const { return round_keys; }
  FACULA_DEVICE uint64_t offset() const { return first; }
};
struct GraphPlace {
  const uint64_t* seed_and_offset;
  uint64_t offset_in_graph;
  FACULA_DEVICE PhiloxKeys keys() const { return philox_keys(seed_and_offset[0]); }
  FACULA_DEVICE uint64_t offset() const { return seed_and_offset[1] + offset_in_graph; }
};

// What distributions are told; which field means what says each of them.
struct RandomParams {
  double a, b, c;
  float fa, fb, fc;
  int64_t low;
  uint64_t range;
};

// ---- the formulas, with fewer instructions ------------------------------------------------------------------------------------
// Only what leaves every bit as it is: a multiplication by a power of two may be fused with an addition, a sum of integers may be
// built in a float's bits, and a quotient or a root may come from an approximation that is corrected to the rounded result. Other
// products and sums are fused where the result is the same for every number that can come.
namespace fast_random {

// One unit in the last place off, at most two.
FACULA_DEVICE float near_reciprocal(float x) {
#if FACULA_PTX
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#elif FACULA_HIP && !defined(SIMGPU)
  return __builtin_amdgcn_rcpf(x);
#else
  return 1.0f / x;
#endif
}

// The root of a normal number, or of a zero.
FACULA_DEVICE float root(float x) {
#if FACULA_PTX
  // What the compiler makes of sqrtf, less the way for tiny and infinite x. The bound keeps a zero from meeting an infinity.
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  y = fminf(fabsf(y), 1e18f);
  const float g = x * y;
  return fmaf(fmaf(-g, g, x), 0.5f * y, g);
#else
  return ::sqrtf(x);
#endif
}

// random_bits::uniform_positive: 128 + high 2^-16 and 2^-9 + low 2^-32 are put together as bits.
FACULA_DEVICE float uniform_positive(uint32_t word) {
  const float high = float_of_bits(0x43000000u | (word >> 16)) - 128.0f;
  const float low = float_of_bits(0x3b000000u | (word & 0xffffu)) - (0x1p-9f - 0x1p-33f);
  return high + low;
}

// random_bits::log_positive times `scale`, which is a power of two, or one with a minus sign.
FACULA_DEVICE float scaled_log_positive(float x, float scale) {
  const uint32_t bits = float_bits(x);
  const uint32_t exponent = ((bits + (0x3f800000u - 0x3f3504f3u)) & 0xff800000u) - 0x3f800000u;  // 2^23 k
  const float m = float_of_bits(bits - exponent);
  const float f = m - 1.0f, d = m + 1.0f;
  // Not every quotient comes out rounded right, and the inner terms of the series are fused, but every logarithm comes out right:
  // tests try all of them, with reciprocals that are off by up to two units.
  const float y = near_reciprocal(d);
  const float q = f * y;
  const float s = fmaf(fmaf(-d, q, f), y, q);
  const float z = s * s;
  const float r = z * (0.66666668653f + z * fmaf(z, fmaf(z, 0.23236070573f, 0.28567501903f), 0.40000000596f));
  const float square = f * f;
  const float rest = f - fmaf(0.5f, square, -(s * fmaf(0.5f, square, r)));
  const float whole = static_cast<float>(static_cast<int32_t>(exponent)) * (scale * (0.69314718246f * 0x1p-23f));
  return fmaf(scale, rest, whole);
}

// The point at `radius` and the angle that random_bits::sincos_turn makes of `word`: its two coordinates are radius * x and
// radius * y of what this leaves, where the radius has taken the sign that x and y share.
FACULA_DEVICE void on_circle(uint32_t word, float& radius, float& x, float& y) {
  const uint32_t turned = word + 0x20000000u;  // the nearest quarter turn is in the two highest bits
  const float t =
      (float_of_bits(0x4b000000u + (((word << 2) + 0x80000000u) >> 10)) - 0x1.4p23f) * (6.28318530718f * 0x1p-24f);
  const float z = t * t;
  const float s = t + t * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
  const float c = fmaf(-0.5f, z, 1.0f) + z * z * (4.166664568e-2f + z * (-1.388731625e-3f + z * 2.443315712e-5f));
  radius = float_of_bits(float_bits(radius) ^ (turned & 0x80000000u));
#if FACULA_PTX
  // One instruction for the test, which the compiler would make a shift and two of.
  asm("{\n"
      "  .reg .pred odd;\n"
      "  .reg .b32 bit;\n"
      "  and.b32 bit, %2, 0x40000000;\n"
      "  setp.ne.u32 odd, bit, 0;\n"
      "  selp.f32 %0, %5, %3, odd;\n"
      "  selp.f32 %1, %3, %4, odd;\n"
      "}"
      : "=f"(x), "=f"(y)
      : "r"(turned), "f"(c), "f"(s), "f"(-s));
#else
  const bool odd = (turned & 0x40000000u) != 0;
  x = odd ? -s : c;
  y = odd ? c : s;
#endif
}

}  // namespace fast_random

// ---- distributions ------------------------------------------------------------------------------------------------------------
// kWords words of Philox give kWords numbers of 32 bits each, or half as many of 64 bits. `draw` turns the words of a block into
// numbers of type Value.

FACULA_DEVICE uint64_t wide_word(const PhiloxBlock& block, int k) {
  return static_cast<uint64_t>(block.word[2 * k + 1]) << 32 | block.word[2 * k];
}

template <class T>
FACULA_DEVICE T no_more_than(T x, T last) {
  return x > last ? last : x;
}

// fa: from, fb: width, fc: the largest result, or infinity. Wide: a, b, c.
struct UniformDraw {
  using Value = float;
  static constexpr int kCount = 4;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, float* out) {
    FACULA_UNROLL
    for (int k = 0; k < 4; ++k) out[k] = no_more_than(random_bits::uniform(block.word[k]) * p.fb + p.fa, p.fc);
  }
};
struct WideUniformDraw {
  using Value = double;
  static constexpr int kCount = 2;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, double* out) {
    FACULA_UNROLL
    for (int k = 0; k < 2; ++k) out[k] = no_more_than(random_bits::uniform(wide_word(block, k)) * p.b + p.a, p.c);
  }
};

// fa: mean, fb: deviation. Wide: a, b. Standard: 0 and 1.
template <bool kStandard>
struct NormalDraw {
  using Value = float;
  static constexpr int kCount = 4;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, float* out) {
    FACULA_UNROLL
    for (int k = 0; k < 4; k += 2) {
      const float u = fast_random::uniform_positive(block.word[k]);
      float radius = fast_random::root(fast_random::scaled_log_positive(u, -2.0f)), x, y;
      fast_random::on_circle(block.word[k + 1], radius, x, y);
      // z * 1 + 0 is z, but for a zero's sign, and that of a fused product with 0 is right too.
      out[k] = kStandard ? fmaf(radius, x, 0.0f) : radius * x * p.fb + p.fa;
      out[k + 1] = kStandard ? fmaf(radius, y, 0.0f) : radius * y * p.fb + p.fa;
    }
  }
};
struct WideNormalDraw {
  using Value = double;
  static constexpr int kCount = 2;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, double* out) {
    double z0, z1;
    random_bits::normal_pair(wide_word(block, 0), wide_word(block, 1), z0, z1);
    out[0] = z0 * p.b + p.a;
    out[1] = z1 * p.b + p.a;
  }
};
struct LogNormalDraw {
  using Value = double;
  static constexpr int kCount = 2;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, double* out) {
    WideNormalDraw::draw(block, p, out);
    out[0] = random_bits::exp_of(out[0]);
    out[1] = random_bits::exp_of(out[1]);
  }
};

// fa, a: one over the rate.
struct ExponentialDraw {
  using Value = float;
  static constexpr int kCount = 4;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, float* out) {
    FACULA_UNROLL
    for (int k = 0; k < 4; ++k) {
      // u may round to 1: never zero.
      const float x = fast_random::scaled_log_positive(fast_random::uniform_positive(block.word[k]), -1.0f);
      out[k] = (x > 0x1p-25f ? x : 0x1p-25f) * p.fa;
    }
  }
};
struct WideExponentialDraw {
  using Value = double;
  static constexpr int kCount = 2;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, double* out) {
    FACULA_UNROLL
    for (int k = 0; k < 2; ++k) {
      const double x = -random_bits::log_positive(random_bits::uniform_positive(wide_word(block, k)));
      out[k] = (x > 0x1p-54 ? x : 0x1p-54) * p.a;
    }
  }
};

// range: the probability in units of 2^-32.
struct BernoulliDraw {
  using Value = uint8_t;
  static constexpr int kCount = 4;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, uint8_t* out) {
    FACULA_UNROLL
    for (int k = 0; k < 4; ++k) out[k] = static_cast<uint64_t>(block.word[k]) < p.range ? 1 : 0;
  }
};

// low, range. Wide: range 0 means all 2^64.
struct IntegerDraw {
  using Value = int64_t;
  static constexpr int kCount = 4;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, int64_t* out) {
    FACULA_UNROLL
    for (int k = 0; k < 4; ++k)
      out[k] = static_cast<int64_t>(static_cast<uint64_t>(p.low) + random_bits::below(block.word[k], p.range));
  }
};
struct WideIntegerDraw {
  using Value = int64_t;
  static constexpr int kCount = 2;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, int64_t* out) {
    FACULA_UNROLL
    for (int k = 0; k < 2; ++k) {
      const uint64_t word = wide_word(block, k);
      const uint64_t picked = p.range ? multiply_high(word, p.range) : word;
      out[k] = static_cast<int64_t>(static_cast<uint64_t>(p.low) + picked);
    }
  }
};

// a: the logarithm of one minus the probability.
struct GeometricDraw {
  using Value = double;
  static constexpr int kCount = 2;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, double* out) {
    FACULA_UNROLL
    for (int k = 0; k < 2; ++k) {
      const double x = ::ceil(random_bits::log_positive(random_bits::uniform_positive(wide_word(block, k))) / p.a);
      out[k] = x > 1.0 ? x : 1.0;
    }
  }
};

// a: median, b: width.
struct CauchyDraw {
  using Value = double;
  static constexpr int kCount = 2;
  static FACULA_DEVICE void draw(const PhiloxBlock& block, const RandomParams& p, double* out) {
    FACULA_UNROLL
    for (int k = 0; k < 2; ++k) {
      double s, c;
      random_bits::sincos_turn(0.5 * random_bits::uniform(wide_word(block, k)), s, c);
      out[k] = p.a - p.b * (c / s);  // tan(pi (u - 1/2)) = -cot(pi u)
    }
  }
};

// ---- the fill -----------------------------------------------------------------------------------------------------------------

inline constexpr int kRandomThreads = 256;
inline constexpr int kRandomRepeat = 4;  // packs that a thread writes

// Elements that a thread computes at a time: whole blocks that fill an access of 16 bytes.
template <class Draw, DType t>
inline constexpr int kRandomPack = 16 / static_cast<int>(sizeof(typename Memory<t>::Bits)) > Draw::kCount
                                       ? 16 / static_cast<int>(sizeof(typename Memory<t>::Bits))
                                       : Draw::kCount;

// The elements of one pack. `block` is its first block of the stream.
template <class Draw, DType t>
FACULA_DEVICE void draw_pack(const PhiloxKeys& keys, uint64_t block, const RandomParams& params,
                             Pack<typename Memory<t>::Bits, kRandomPack<Draw, t>>& numbers) {
  FACULA_UNROLL
  for (int b = 0; b < kRandomPack<Draw, t> / Draw::kCount; ++b) {
    typename Draw::Value values[Draw::kCount];
    Draw::draw(philox_block(keys, block + static_cast<uint64_t>(b), 0), params, values);
    FACULA_UNROLL
    for (int k = 0; k < Draw::kCount; ++k) numbers.at[b * Draw::kCount + k] = Memory<t>::store(values[k]);
  }
}

// The order of members is what gpu/program/random.cpp writes.
template <class Place>
struct RandomArgs {
  void* data;
  int64_t count;
  Place place;
  RandomParams params;
  int32_t aligned;  // packs may be written at once
};

template <class Draw, DType t, class Place>
FACULA_DEVICE void fill_random(const RandomArgs<Place>& args) {
  using Bits = typename Memory<t>::Bits;
  constexpr int kPack = kRandomPack<Draw, t>, kBlocks = kPack / Draw::kCount;
  constexpr int kElements = kPack * kRandomThreads * kRandomRepeat;  // of a thread block
  const RandomParams& params = args.params;
  const auto& keys = args.place.keys();
  const int64_t before = static_cast<int64_t>(blockIdx.x) * kElements;
  const int64_t left = args.count - before;
  const int pack = static_cast<int>(threadIdx.x);
  Bits* const out = static_cast<Bits*>(args.data) + before + pack * kPack;
  const uint64_t block =
      args.place.offset() + static_cast<uint64_t>(before / Draw::kCount) + static_cast<uint32_t>(pack * kBlocks);
  if (args.aligned != 0 && left >= kElements) {
    // Packs that share the loading of the keys; formulas of doubles are long enough without.
    constexpr int kTogether = sizeof(typename Draw::Value) == 4 && kBlocks < 4 ? kRandomRepeat / kBlocks : 1;
    FACULA_NO_UNROLL
    for (int r0 = 0; r0 < kRandomRepeat; r0 += kTogether) {
      FACULA_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        const int r = r0 + k;
        Pack<Bits, kPack> numbers;
        draw_pack<Draw, t>(keys, block + static_cast<uint64_t>(r * kRandomThreads * kBlocks), params, numbers);
        numbers.write(out + r * kRandomThreads * kPack);
      }
    }
  } else {
    FACULA_NO_UNROLL
    for (int r = 0; r < kRandomRepeat; ++r) {
      const int64_t first = static_cast<int64_t>(r * kRandomThreads + pack) * kPack;
      if (first >= left) return;
      Pack<Bits, kPack> numbers;
      draw_pack<Draw, t>(keys, block + static_cast<uint64_t>(r * kRandomThreads * kBlocks), params, numbers);
      FACULA_UNROLL
      for (int k = 0; k < kPack; ++k)
        if (first + k < left) out[r * kRandomThreads * kPack + k] = numbers.at[k];
    }
  }
}

}  // namespace facula
