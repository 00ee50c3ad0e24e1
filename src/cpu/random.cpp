// Philox in vectors, and the loops from words to numbers. The formulas are in program/random_bits.h.
#include "cpu/random.h"

#include "core/generator_impl.h"
#include "core/kernel_table.h"
#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "program/random_bits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/random.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One block a 64-bit lane: the multiplier reads the low halves only, so that high halves may hold anything.
HWY_ATTR void words_of_blocks(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint64_t> d64;
  const hn::Repartition<uint32_t, decltype(d64)> d32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d64));
  const auto low_half = hn::Set(d64, 0xffffffffull);
  const auto m0 = hn::BitCast(d32, hn::Set(d64, 0xD2511F53ull)), m1 = hn::BitCast(d32, hn::Set(d64, 0xCD9E8D57ull));
  int64_t i = 0;
  for (; i + lanes <= blocks; i += lanes) {
    const auto counter = hn::Add(hn::Iota(d64, 0), hn::Set(d64, first + static_cast<uint64_t>(i)));
    auto c0 = counter, c1 = hn::ShiftRight<32>(counter), c2 = hn::Zero(d64), c3 = hn::Zero(d64);
    auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto p0 = hn::MulEven(hn::BitCast(d32, c0), m0), p1 = hn::MulEven(hn::BitCast(d32, c2), m1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d64, k0));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d64, k1));
      c1 = p1;
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const auto w01 = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
    const auto w23 = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(w01, w23, d64, reinterpret_cast<uint64_t*>(words + 4 * i));
  }
  for (; i < blocks; ++i) {
    auto block = philox4x32_10(seed, first + static_cast<uint64_t>(i));
    std::copy(block.begin(), block.end(), words + 4 * i);
  }
}

// Plain loops: each target compiles and vectorises them for itself.
HWY_ATTR void uniform_f32(const uint32_t* HWY_RESTRICT w, float* HWY_RESTRICT out, int64_t n, float a, float width) {
  for (int64_t i = 0; i < n; ++i) out[i] = random_bits::uniform(w[i]) * width + a;
}
HWY_ATTR void uniform_f64(const uint64_t* HWY_RESTRICT w, double* HWY_RESTRICT out, int64_t n, double a, double width) {
  for (int64_t i = 0; i < n; ++i) out[i] = random_bits::uniform(w[i]) * width + a;
}
HWY_ATTR void normal_f32(const uint32_t* HWY_RESTRICT w, float* HWY_RESTRICT out, int64_t pairs, float mean,
                         float deviation) {
  for (int64_t i = 0; i < pairs; ++i) {
    float z0, z1;
    random_bits::normal_pair(w[2 * i], w[2 * i + 1], z0, z1);
    out[2 * i] = z0 * deviation + mean;
    out[2 * i + 1] = z1 * deviation + mean;
  }
}
HWY_ATTR void normal_f64(const uint64_t* HWY_RESTRICT w, double* HWY_RESTRICT out, int64_t pairs, double mean,
                         double deviation) {
  for (int64_t i = 0; i < pairs; ++i) {
    double z0, z1;
    random_bits::normal_pair(w[2 * i], w[2 * i + 1], z0, z1);
    out[2 * i] = z0 * deviation + mean;
    out[2 * i + 1] = z1 * deviation + mean;
  }
}
HWY_ATTR void exponential_f32(const uint32_t* HWY_RESTRICT w, float* HWY_RESTRICT out, int64_t n, float scale) {
  for (int64_t i = 0; i < n; ++i) {
    // u may round to 1: never zero.
    float x = -random_bits::log_positive(random_bits::uniform_positive(w[i]));
    out[i] = (x > 0x1p-25f ? x : 0x1p-25f) * scale;
  }
}
HWY_ATTR void exponential_f64(const uint64_t* HWY_RESTRICT w, double* HWY_RESTRICT out, int64_t n, double scale) {
  for (int64_t i = 0; i < n; ++i) {
    double x = -random_bits::log_positive(random_bits::uniform_positive(w[i]));
    out[i] = (x > 0x1p-54 ? x : 0x1p-54) * scale;
  }
}
// `threshold` is the probability in units of 2^-32.
HWY_ATTR void bernoulli(const uint32_t* HWY_RESTRICT w, uint8_t* HWY_RESTRICT out, int64_t n, uint64_t threshold) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint64_t>(w[i]) < threshold ? 1 : 0;
}
HWY_ATTR void integers(const uint32_t* HWY_RESTRICT w, int64_t* HWY_RESTRICT out, int64_t n, int64_t low,
                       uint64_t range) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + random_bits::below(w[i], range));
}
HWY_ATTR void wide_integers(const uint64_t* HWY_RESTRICT w, int64_t* HWY_RESTRICT out, int64_t n, int64_t low,
                            uint64_t range) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + (range ? random_bits::below(w[i], range) : w[i]));
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {

HWY_EXPORT(words_of_blocks);
HWY_EXPORT(uniform_f32);
HWY_EXPORT(uniform_f64);
HWY_EXPORT(normal_f32);
HWY_EXPORT(normal_f64);
HWY_EXPORT(exponential_f32);
HWY_EXPORT(exponential_f64);
HWY_EXPORT(bernoulli);
HWY_EXPORT(integers);
HWY_EXPORT(wide_integers);

void philox_words(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(words_of_blocks)(seed, first, blocks, words);
}

bool wide_draws(const RandomFill& fill, ScalarType dtype) {
  switch (fill.distribution) {
    case Distribution::Bernoulli: return false;
    // 32 bits leave a bias of range / 2^32: small ranges only.
    case Distribution::Integer: return fill.range == 0 || fill.range > (uint64_t{1} << 24);
    case Distribution::Geometric:
    case Distribution::Cauchy:
    case Distribution::LogNormal: return true;
    default: return dtype == ScalarType::Double || dtype == ScalarType::ComplexDouble;
  }
}

uint64_t random_blocks(const RandomFill& fill, ScalarType dtype, int64_t count) {
  auto n = static_cast<uint64_t>(count);
  return wide_draws(fill, dtype) ? (n + 1) / 2 : (n + 3) / 4;
}

float largest_below(ScalarType dtype, double b) {
  if (dtype == ScalarType::Float) {
    auto f = static_cast<float>(b);
    return static_cast<double>(f) < b ? f : std::nextafter(f, -std::numeric_limits<float>::infinity());
  }
  // Downwards in steps of half a unit in the last place until the dtype holds less than b.
  alignas(8) char narrow[8];
  double step = std::max(std::abs(b), 1e-30) * 0x1p-13;
  for (double x = b;; x -= step) {
    float back;
    cast_store_fn(CType::F64, dtype)(&x, narrow, 1);
    load_fn(dtype)(narrow, &back, 1);
    if (static_cast<double>(back) < b) return back;
  }
}

namespace {

constexpr int64_t kTile = 1024;  // elements at a time; a multiple of four

// Numbers of one tile in the type they are computed in.
struct Tile {
  alignas(64) uint32_t words[2 * kTile];
  union {
    alignas(64) float f32[kTile];
    double f64[kTile];
    int64_t i64[kTile];
    uint8_t b8[kTile];
  };
};

template <class T>
void keep_below(T* x, int64_t n, T last) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] > last ? last : x[i];
}

// Which compute type the numbers of a distribution come in.
CType draw(const RandomFill& f, ScalarType dtype, Tile& t, int64_t n) {
  bool wide = wide_draws(f, dtype);
  auto* w64 = reinterpret_cast<uint64_t*>(t.words);
  switch (f.distribution) {
    case Distribution::Uniform:
      if (wide) {
        HWY_DYNAMIC_DISPATCH(uniform_f64)(w64, t.f64, n, f.a, f.b - f.a);
        if (f.a < f.b) keep_below(t.f64, n, std::nextafter(f.b, f.a));
        return CType::F64;
      }
      HWY_DYNAMIC_DISPATCH(uniform_f32)(t.words, t.f32, n, static_cast<float>(f.a), static_cast<float>(f.b - f.a));
      if (f.a < f.b && (f.a != 0 || f.b != 1 || elementSize(dtype) < 4))
        keep_below(t.f32, n, largest_below(dtype, f.b));
      return CType::F32;
    case Distribution::Normal:
      if (wide) {
        HWY_DYNAMIC_DISPATCH(normal_f64)(w64, t.f64, (n + 1) / 2, f.a, f.b);
        return CType::F64;
      }
      HWY_DYNAMIC_DISPATCH(normal_f32)(t.words, t.f32, (n + 1) / 2, static_cast<float>(f.a), static_cast<float>(f.b));
      return CType::F32;
    case Distribution::Exponential:
      if (wide) {
        HWY_DYNAMIC_DISPATCH(exponential_f64)(w64, t.f64, n, 1 / f.a);
        return CType::F64;
      }
      HWY_DYNAMIC_DISPATCH(exponential_f32)(t.words, t.f32, n, static_cast<float>(1 / f.a));
      return CType::F32;
    case Distribution::Bernoulli:
      HWY_DYNAMIC_DISPATCH(bernoulli)(t.words, t.b8, n, static_cast<uint64_t>(std::ldexp(f.a, 32)));
      return CType::B8;
    case Distribution::Integer:
      if (wide) HWY_DYNAMIC_DISPATCH(wide_integers)(w64, t.i64, n, f.low, f.range);
      else HWY_DYNAMIC_DISPATCH(integers)(t.words, t.i64, n, f.low, f.range);
      return CType::I64;
    case Distribution::Geometric:
      for (int64_t i = 0; i < n; ++i)
        t.f64[i] = std::max(
            1.0, std::ceil(random_bits::log_positive(random_bits::uniform_positive(w64[i])) / std::log1p(-f.a)));
      return CType::F64;
    case Distribution::Cauchy:
      for (int64_t i = 0; i < n; ++i) {
        double s, c;
        random_bits::sincos_turn(0.5 * random_bits::uniform(w64[i]), s, c);
        t.f64[i] = f.a - f.b * (c / s);  // tan(pi (u - 1/2)) = -cot(pi u)
      }
      return CType::F64;
    case Distribution::LogNormal:
      HWY_DYNAMIC_DISPATCH(normal_f64)(w64, t.f64, (n + 1) / 2, f.a, f.b);
      for (int64_t i = 0; i < n; ++i) t.f64[i] = random_bits::exp_of(t.f64[i]);
      return CType::F64;
  }
  return CType::F64;
}

}  // namespace

void random_fill(const RandomFill& fill, ScalarType dtype, void* data, int64_t count) {
  bool wide = wide_draws(fill, dtype);
  size_t width = elementSize(dtype);
  int64_t tiles = (count + kTile - 1) / kTile;
  parallel_for(0, tiles, 8, [&](int64_t first, int64_t last) {
    Tile tile;
    for (int64_t i = first; i < last; ++i) {
      int64_t begin = i * kTile, n = std::min(kTile, count - begin);
      int64_t per_block = wide ? 2 : 4;
      philox_words(fill.seed, fill.offset + static_cast<uint64_t>(begin / per_block), (n + per_block - 1) / per_block,
                   tile.words);
      CType type = draw(fill, dtype, tile, n);
      cast_store_fn(type, dtype)(&tile.f64, static_cast<char*>(data) + static_cast<size_t>(begin) * width,
                                 static_cast<size_t>(n));
    }
  });
}

static KernelRegistration uniform_kernel(OpId::uniform_, DeviceType::CPU, &random_fill);

}  // namespace facula
#endif
