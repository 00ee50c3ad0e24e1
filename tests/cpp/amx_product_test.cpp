// The product of bfloat16 in tiles: with a model of the tile instructions, on any machine, and with the instructions where there are some.
// Against sums in double, with NaN around every operand, so that nothing outside of them may count.
#include "cpu/amx/product-inl.h"

#include "seed.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace facula;
using facula_test::seed_text;
using facula_test::test_seed;

constexpr uint16_t kNan = 0x7fc0;

float widen(uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); }
uint16_t narrow(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The instructions, but for the order of the terms within a tile.
class TileModel {
 public:
  template <int tile>
  void zero() {
    tiles_[tile] = {};
  }
  template <int tile>
  void load(const void* from, int64_t row_bytes) {
    for (int64_t r = 0; r < 16; ++r)
      std::memcpy(tiles_[tile].data() + r * 64, static_cast<const char*>(from) + r * row_bytes, 64);
  }
  template <int tile>
  void store(void* to, int64_t row_bytes) const {
    for (int64_t r = 0; r < 16; ++r)
      std::memcpy(static_cast<char*>(to) + r * row_bytes, tiles_[tile].data() + r * 64, 64);
  }
  static void narrow(const float* from, uint16_t* to) {
    for (int i = 0; i < 32; ++i) to[i] = std::isnan(from[i]) ? kNan : ::narrow(from[i]);
  }
  template <int sums, int a, int b>
  void dot() {
    for (size_t r = 0; r < 16; ++r)
      for (size_t c = 0; c < 16; ++c) {
        auto sum = get<float>(sums, r, c);
        for (size_t p = 0; p < 16; ++p)
          for (size_t i = 0; i < 2; ++i)
            sum += ::widen(get<uint16_t>(a, r, 2 * p + i)) * ::widen(get<uint16_t>(b, p, 2 * c + i));
        std::memcpy(tiles_[sums].data() + r * 64 + c * sizeof(float), &sum, sizeof(sum));
      }
  }

 private:
  template <class T>
  T get(int tile, size_t row, size_t i) const {
    T value;
    std::memcpy(&value, tiles_[static_cast<size_t>(tile)].data() + row * 64 + i * sizeof(T), sizeof(T));
    return value;
  }
  std::array<std::array<char, 1024>, 8> tiles_;
};

// A matrix of numbers somewhere in an array of NaN.
struct Matrix {
  Matrix(std::mt19937_64& rng, int64_t rows, int64_t columns, int layout)
      : row(layout == 0   ? columns + 3
            : layout == 1 ? 1
                          : 2 * columns + 1),
        column(layout == 0   ? 1
               : layout == 1 ? rows + 5
                             : 2),
        data(static_cast<size_t>(kMargin * 2 + rows * row + columns * column), kNan) {
    std::normal_distribution<float> normal;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) at(r, c) = narrow(normal(rng));
  }
  uint16_t& at(int64_t r, int64_t c) { return data[static_cast<size_t>(kMargin + r * row + c * column)]; }

  static constexpr int64_t kMargin = 70;
  int64_t row, column;
  std::vector<uint16_t> data;
};

class AmxProductTest : public testing::Test {
 protected:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng_); }

  template <class Multiply>
  void check(int64_t m, int64_t n, int64_t k, Multiply&& multiply) {
    const int a_layout = static_cast<int>(pick(0, 2)), b_layout = static_cast<int>(pick(0, 2));
    Matrix a(rng_, m, k, a_layout), b(rng_, k, n, b_layout), c(rng_, m, n, 0);
    const float alpha = pick(0, 1) == 0 ? 1.0f : -0.75f, beta = pick(0, 1) == 0 ? 0.0f : 0.5f;
    const Matrix before = c;
    if (beta == 0)
      for (int64_t r = 0; r < m; ++r)
        for (int64_t j = 0; j < n; ++j) c.at(r, j) = kNan;
    multiply(amx::Product{m, n, k, &a.at(0, 0), a.row, a.column, &b.at(0, 0), b.row, b.column, &c.at(0, 0), c.row,
                          alpha, beta});
    Matrix old = before;
    int64_t wrong = 0;
    for (int64_t r = 0; r < m; ++r)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int64_t t = 0; t < k; ++t) {
          const double x = static_cast<double>(widen(a.at(r, t))) * static_cast<double>(widen(b.at(t, j)));
          sum += x;
          size += std::abs(x);
        }
        const double want =
            static_cast<double>(alpha) * sum + static_cast<double>(beta) * static_cast<double>(widen(old.at(r, j)));
        wrong += !(std::abs(static_cast<double>(widen(c.at(r, j))) - want) <= std::abs(want) / 256 + 1e-5 * (size + 1));
        c.at(r, j) = kNan;
      }
    EXPECT_EQ(wrong, 0) << m << " x " << k << " x " << n << ", layouts " << a_layout << ' ' << b_layout << ", alpha "
                        << alpha << ", beta " << beta;
    for (const uint16_t v : c.data) wrong += v != kNan;
    EXPECT_EQ(wrong, 0) << "writes beside C";
  }

  template <class Multiply>
  void check_many(Multiply&& multiply) {
    SCOPED_TRACE(seed_text());
    for (int round = 0; round < 60; ++round)
      check(pick(1, 70), pick(1, 70), round % 3 == 0 ? 32 * pick(1, 3) : pick(1, 100), multiply);
    check(33, 17, 2 * amx::kPartTerms + 37, multiply);
    check(amx::kPartRows + 19, 5, amx::kPartTerms + 33, multiply);
    check(18, amx::kPartColumns + 9, amx::kPartTerms + 1, multiply);
    check(50, 2 * amx::kPartColumns + 33, 70, multiply);
  }

  struct alignas(64) Line {
    char bytes[64];
  };
  std::mt19937_64 rng_{test_seed()};
  std::vector<Line> room_ = std::vector<Line>(amx::kRoomBytes / sizeof(Line));
};

TEST_F(AmxProductTest, InAModelOfTheInstructions) {
  check_many([&](const amx::Product& p) {
    TileModel tiles;
    amx::multiply_with(tiles, p, reinterpret_cast<uint16_t*>(room_.data()));
  });
}

TEST_F(AmxProductTest, WithTheInstructions) {
  if (!amx::available()) GTEST_SKIP() << "no tile registers here";
  check_many([&](const amx::Product& p) { amx::multiply(p, room_.data()); });
}

// A dimension of one element may have any stride.
TEST_F(AmxProductTest, StridesThatDoNotCount) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const uint16_t a[] = {narrow(2), narrow(3)}, b[] = {narrow(5), narrow(7)};
  uint16_t got = 0;
  TileModel tiles;
  amx::multiply_with(tiles, {1, 1, 2, a, huge, 1, b, 1, huge, &got, huge, 1, 0},
                     reinterpret_cast<uint16_t*>(room_.data()));
  EXPECT_EQ(widen(got), 31);
}

// Sums are rounded once, to the nearest and ties to even; what is no number stays that, and what is too large becomes infinite.
TEST_F(AmxProductTest, RoundsToNearestEven) {
  const float inf = std::numeric_limits<float>::infinity(), unit = 0.00390625f;  // half of the last place of 1
  struct Case {
    float first, second, want;
  };
  const std::vector<Case> cases = {{1, 0, 1},
                                   {1, unit, 1},
                                   {-1, -unit, -1},
                                   {1, 3 * unit, 1 + 4 * unit},
                                   {1, unit * 1.0078125f, 1 + 2 * unit},
                                   {3.3e38f, 3.3e38f, inf},
                                   {-inf, 1, -inf},
                                   {inf, -inf, std::nanf("")}};
  const auto check_all = [&](auto&& multiply) {
    for (const Case& c : cases) {
      const uint16_t a[] = {narrow(c.first), narrow(c.second)}, b[] = {narrow(1), narrow(1)};
      uint16_t got = 0;
      multiply(amx::Product{1, 1, 2, a, 2, 1, b, 1, 1, &got, 1, 1, 0});
      if (std::isnan(c.want)) EXPECT_TRUE(std::isnan(widen(got)));
      else EXPECT_EQ(widen(got), c.want) << c.first << " + " << c.second;
    }
  };
  check_all([&](const amx::Product& p) {
    TileModel tiles;
    amx::multiply_with(tiles, p, reinterpret_cast<uint16_t*>(room_.data()));
  });
  if (amx::available()) check_all([&](const amx::Product& p) { amx::multiply(p, room_.data()); });
}

}  // namespace
