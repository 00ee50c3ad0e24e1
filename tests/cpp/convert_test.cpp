// Array conversions between all pairs of dtypes, against one element at a time in plain C++; strided blocks against
// their definition.
#include "cpu/convert.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/dispatch.h"
#include "cpp/seed.h"

namespace facula {
namespace {

std::vector<ScalarType> all_dtypes() {
  std::vector<ScalarType> all;
  for (int i = 0; i < kNumScalarTypes; ++i) all.push_back(static_cast<ScalarType>(i));
  return all;
}

// One element with enough room for every value of every dtype: long double holds 64-bit integers and doubles exactly.
struct Wide {
  long double re = 0, im = 0;
};

template <class T>
Wide widen(T v) {
  if constexpr (is_complex_v<T>) return {static_cast<long double>(v.real()), static_cast<long double>(v.imag())};
  else return {static_cast<long double>(v), 0};
}

// The reference for a float that becomes an integer of type I: truncation, the smallest integer out of range.
template <class I>
I to_integer(long double v) {
  const bool fits = v > static_cast<long double>(std::numeric_limits<I>::min()) - 1 &&
                    v < -static_cast<long double>(std::numeric_limits<I>::min());
  return fits ? static_cast<I>(v) : std::numeric_limits<I>::min();
}

template <class T>
T narrow_real(long double v, bool from_float) {
  if constexpr (std::is_same_v<T, bool>) {
    return v != 0;
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (v >= 0x1p63L && v < 0x1p64L) return static_cast<uint64_t>(v);
    return static_cast<uint64_t>(to_integer<int64_t>(v));
  } else if constexpr (std::is_integral_v<T>) {
    if (!from_float) {
      return v < 0 ? static_cast<T>(static_cast<int64_t>(v)) : static_cast<T>(static_cast<uint64_t>(v));
    }
    if constexpr (sizeof(T) == 8 || std::is_same_v<T, uint32_t>) return static_cast<T>(to_integer<int64_t>(v));
    else return static_cast<T>(to_integer<int32_t>(v));
  } else if constexpr (is_narrow_float_v<T>) {
    if (from_float) return T(static_cast<double>(v));
    return v < 0 ? T(static_cast<int64_t>(v)) : T(static_cast<uint64_t>(v));
  } else {
    return static_cast<T>(v);
  }
}

template <class T>
T narrow(Wide w, bool from_float) {
  if constexpr (is_complex_v<T>) {
    using P = typename T::value_type;
    return T(narrow_real<P>(w.re, from_float), narrow_real<P>(w.im, from_float));
  } else if constexpr (std::is_same_v<T, bool>) {
    return w.re != 0 || w.im != 0;
  } else {
    return narrow_real<T>(w.re, from_float);
  }
}

template <class T>
bool same_real(T a, T b) {
  if constexpr (std::is_integral_v<T>) return a == b;
  else return (a != a && b != b) || std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
bool same(T a, T b) {
  if constexpr (is_complex_v<T>) return same_real(a.real(), b.real()) && same_real(a.imag(), b.imag());
  else return same_real(a, b);
}

using Bytes = std::vector<char>;

// Random bits give all magnitudes, infinities and NaNs; half of the elements are small numbers, on which conversions
// do not overflow.
template <class T>
T draw_real(std::mt19937_64& random) {
  const uint64_t bits = random();
  if constexpr (std::is_same_v<T, bool>) {
    return (bits & 1) != 0;
  } else {
    const auto small = static_cast<int64_t>(random() % 20001) - 10000;
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>((bits & 1) != 0 ? small : static_cast<T>(random()) >> (random() % (8 * sizeof(T))));
    }
    if ((bits & 1) != 0) return static_cast<T>(static_cast<double>(small) / 16);
    T v;
    const uint64_t pattern = random();
    std::memcpy(&v, &pattern, sizeof(T));
    return v;
  }
}

Bytes draw(ScalarType t, size_t n, std::mt19937_64& random) {
  Bytes bytes(n * elementSize(t));
  dispatch_dtype(t, [&]<class T>() {
    for (size_t i = 0; i < n; ++i) {
      T v;
      if constexpr (is_complex_v<T>) {
        v = T(draw_real<typename T::value_type>(random), draw_real<typename T::value_type>(random));
      } else if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T> && !std::is_same_v<T, bool>) {
        v = static_cast<T>(random() >> (random() % 64));
      } else {
        v = draw_real<T>(random);
      }
      std::memcpy(bytes.data() + i * sizeof(T), &v, sizeof(T));
    }
  });
  return bytes;
}

Bytes convert_reference(const Bytes& src, ScalarType from, ScalarType to, size_t n) {
  Bytes out(n * elementSize(to));
  dispatch_dtype(from, [&]<class S>() {
    dispatch_dtype(to, [&]<class D>() {
      for (size_t i = 0; i < n; ++i) {
        S s;
        std::memcpy(&s, src.data() + i * sizeof(S), sizeof(S));
        const D d = narrow<D>(widen(s), isFloatingType(from) || isComplexType(from));
        std::memcpy(out.data() + i * sizeof(D), &d, sizeof(D));
      }
    });
  });
  return out;
}

testing::AssertionResult equal(const Bytes& got, const Bytes& want, ScalarType t) {
  return dispatch_dtype(t, [&]<class T>() -> testing::AssertionResult {
    for (size_t i = 0; i < want.size() / sizeof(T); ++i) {
      T a, b;
      std::memcpy(&a, got.data() + i * sizeof(T), sizeof(T));
      std::memcpy(&b, want.data() + i * sizeof(T), sizeof(T));
      if (!same(a, b)) return testing::AssertionFailure() << "element " << i << ": got " << +a << ", expected " << +b;
    }
    return testing::AssertionSuccess();
  });
}

class ConvertTest : public testing::Test {
 protected:
  std::mt19937_64 random_{facula_test::test_seed()};
  testing::ScopedTrace trace_{__FILE__, __LINE__, facula_test::seed_text()};
};

TEST_F(ConvertTest, ComputeTypes) {
  EXPECT_EQ(compute_type(kBFloat16), CType::F32);
  EXPECT_EQ(compute_type(kUInt16), CType::I32);
  EXPECT_EQ(compute_type(kUInt32), CType::I64);
  EXPECT_EQ(compute_type(kComplexHalf), CType::C64);
  for (ScalarType t : all_dtypes()) {
    EXPECT_EQ(compute_type(dtype_of(compute_type(t))), compute_type(t));
    EXPECT_EQ(load_fn(t) == nullptr, dtype_of(compute_type(t)) == t) << t;
    EXPECT_EQ(store_fn(t) == nullptr, dtype_of(compute_type(t)) == t) << t;
    EXPECT_EQ(ctype_size(compute_type(t)), elementSize(dtype_of(compute_type(t))));
  }
}

// Every pair, by each way there is from one to the other.
TEST_F(ConvertTest, AllPairs) {
  for (ScalarType from : all_dtypes()) {
    for (ScalarType to : all_dtypes()) {
      SCOPED_TRACE(testing::Message() << from << " to " << to);
      for (const size_t n : {1u, 7u, 64u, 1003u, 5000u}) {
        const Bytes src = draw(from, n, random_);
        const Bytes want = convert_reference(src, from, to, n);
        const CType type = compute_type(from);
        Bytes loaded(n * ctype_size(type));
        if (const ConvertFn load = load_fn(from)) load(src.data(), loaded.data(), n);
        else loaded = src;
        ASSERT_TRUE(equal(loaded, convert_reference(src, from, dtype_of(type), n), dtype_of(type)));
        Bytes got(n * elementSize(to));
        cast_store_fn(type, to)(loaded.data(), got.data(), n);
        ASSERT_TRUE(equal(got, want, to)) << "cast_store_fn";
        if (const ConvertFn direct = convert_fn(from, to)) {
          std::fill(got.begin(), got.end(), 0x5a);
          direct(src.data(), got.data(), n);
          ASSERT_TRUE(equal(got, want, to)) << "convert_fn";
        } else {
          ASSERT_NE(load_fn(from), nullptr);
        }
        if (compute_type(to) == type && store_fn(to) != nullptr) {
          store_fn(to)(loaded.data(), got.data(), n);
          ASSERT_TRUE(equal(got, want, to)) << "store_fn";
        }
      }
    }
  }
}

TEST_F(ConvertTest, CastsBetweenComputeTypes) {
  for (size_t a = 0; a < kCTypeCount; ++a) {
    for (size_t b = 0; b < kCTypeCount; ++b) {
      const auto from = static_cast<CType>(a), to = static_cast<CType>(b);
      const ConvertFn cast = cast_fn(from, to);
      ASSERT_EQ(cast == nullptr, a == b);
      if (cast == nullptr) continue;
      const Bytes src = draw(dtype_of(from), 777, random_);
      Bytes got(777 * ctype_size(to));
      cast(src.data(), got.data(), 777);
      ASSERT_TRUE(equal(got, convert_reference(src, dtype_of(from), dtype_of(to), 777), dtype_of(to)))
          << a << " to " << b;
      if (ctype_size(from) == ctype_size(to)) {
        Bytes in_place = src;
        cast(in_place.data(), in_place.data(), 777);
        ASSERT_TRUE(equal(in_place, got, dtype_of(to))) << a << " to " << b << " in place";
      }
    }
  }
}

// All patterns of the 16-bit and 8-bit floats through the vector loops.
TEST_F(ConvertTest, EveryNarrowPattern) {
  for (ScalarType t : {kHalf, kBFloat16, kFloat8_e5m2, kFloat8_e4m3fn}) {
    const size_t n = elementSize(t) == 2 ? 65536 : 256;
    Bytes src(n * elementSize(t));
    for (size_t i = 0; i < n; ++i) std::memcpy(src.data() + i * elementSize(t), &i, elementSize(t));
    Bytes floats(n * 4), back(src.size());
    load_fn(t)(src.data(), floats.data(), n);
    ASSERT_TRUE(equal(floats, convert_reference(src, t, kFloat, n), kFloat)) << t;
    store_fn(t)(floats.data(), back.data(), n);
    ASSERT_TRUE(equal(back, src, t)) << t;
  }
}

TEST_F(ConvertTest, FloatsOutOfRangeOfIntegers) {
  const float floats[] = {3e9f, -3e9f, 1e30f, -1e30f, HUGE_VALF, -HUGE_VALF, std::nanf(""), 300.7f, -1.5f};
  int32_t ints[9];
  cast_fn(CType::F32, CType::I32)(floats, ints, 9);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(ints[i], INT32_MIN) << i;
  EXPECT_EQ(ints[7], 300);
  EXPECT_EQ(ints[8], -1);
  int64_t longs[9];
  cast_fn(CType::F32, CType::I64)(floats, longs, 9);
  EXPECT_EQ(longs[0], 3000000000);
  EXPECT_EQ(longs[2], INT64_MIN);
  EXPECT_EQ(longs[6], INT64_MIN);
  uint8_t bytes[9];
  convert_fn(kFloat, kByte)(floats, bytes, 9);
  EXPECT_EQ(bytes[7], 300 - 256);
  EXPECT_EQ(bytes[8], 255);
  const double doubles[] = {1.5e19, -1.0, 1e30};
  uint64_t big[3];
  cast_fn(CType::F64, CType::U64)(doubles, big, 3);
  EXPECT_EQ(big[0], 15000000000000000000u);
  EXPECT_EQ(big[1], UINT64_MAX);
}

// Blocks at every kind of stride, each element checked against its definition.
TEST_F(ConvertTest, Blocks) {
  const int64_t shapes[][2] = {{1, 1},   {1, 100},  {100, 1},  {16, 16},  {32, 64}, {7, 13},
                               {33, 61}, {2, 1024}, {1024, 2}, {3, 1500}, {1, 2048}};
  for (ScalarType t : all_dtypes()) {
    const size_t elem = elementSize(t);
    const ScalarType compute = dtype_of(compute_type(t));
    const size_t wide = elementSize(compute);
    for (const auto& [rows, cols] : shapes) {
      const int64_t strides[][2] = {
          {cols, 1},  {cols + 3, 1}, {1, rows},  {1, rows + 5},     {0, 1},       {1, 0}, {0, 0}, {2 * cols, 2},
          {-cols, 1}, {cols, -1},    {-1, rows}, {3, 3 * rows + 1}, {5 * cols, 5}};
      for (const auto& [rs, cs] : strides) {
        SCOPED_TRACE(testing::Message() << t << " " << rows << "x" << cols << " strides " << rs << "," << cs);
        const int64_t low = std::min<int64_t>(0, rs * (rows - 1)) + std::min<int64_t>(0, cs * (cols - 1));
        const int64_t high = std::max<int64_t>(0, rs * (rows - 1)) + std::max<int64_t>(0, cs * (cols - 1));
        const size_t total = static_cast<size_t>(high - low + 1), count = static_cast<size_t>(rows * cols);
        const Bytes memory = draw(t, total, random_);
        Bytes gathered(count * elem);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < cols; ++c) {
            std::memcpy(gathered.data() + static_cast<size_t>(r * cols + c) * elem,
                        memory.data() + static_cast<size_t>(r * rs + c * cs - low) * elem, elem);
          }
        }
        const Bytes want = convert_reference(gathered, t, compute, count);
        Bytes tile(count * wide + 16, 0x77);
        load_block(memory.data() - low * static_cast<int64_t>(elem), t, rows, cols, rs, cs, tile.data());
        ASSERT_TRUE(equal(tile, want, compute));
        ASSERT_EQ(tile.back(), 0x77) << "wrote past the end";
        if ((rs == 0 && rows > 1) || (cs == 0 && cols > 1)) continue;
        Bytes stored = draw(t, total, random_);
        Bytes expected = stored;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < cols; ++c) {
            std::memcpy(expected.data() + static_cast<size_t>(r * rs + c * cs - low) * elem,
                        gathered.data() + static_cast<size_t>(r * cols + c) * elem, elem);
          }
        }
        store_block(want.data(), t, rows, cols, rs, cs, stored.data() - low * static_cast<int64_t>(elem));
        ASSERT_TRUE(equal(stored, expected, t));
      }
    }
  }
}

}  // namespace
}  // namespace facula
