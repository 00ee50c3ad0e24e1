// Random numbers: Philox against its published answers, streams that depend on nothing but seed and position, and
// distributions against their moments and distribution functions.
#include "core/generator_impl.h"
#include "cpu/random.h"
#include "seed.h"

#include <facula/facula.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace {

using namespace facula;
using facula_test::seed_text;
using facula_test::test_seed;

TEST(Philox, KnownAnswers) {
  // From the published test vectors of philox4x32-10 (counter words, key words, result).
  auto zero = philox4x32_10(0, 0, 0);
  EXPECT_EQ(zero, (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  auto ones_ = philox4x32_10(UINT64_MAX, UINT64_MAX, UINT64_MAX);
  EXPECT_EQ(ones_, (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  auto pi = philox4x32_10(0x299f31d0a4093822ull, 0x85a308d3243f6a88ull, 0x0370734413198a2eull);
  EXPECT_EQ(pi, (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, VectorsAgreeWithOneBlockAtATime) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(seed_text());
  for (uint64_t first : {uint64_t{0}, uint64_t{12345}, uint64_t{0xfffffff0}, UINT64_MAX - 20}) {
    std::vector<uint32_t> words(4 * 37);
    philox_words(seed, first, 37, words.data());
    for (uint64_t i = 0; i < 37; ++i) {
      auto block = philox4x32_10(seed, first + i);
      for (size_t k = 0; k < 4; ++k) ASSERT_EQ(words[4 * i + k], block[k]) << first << " " << i;
    }
  }
}

TEST(Random, SameSeedSameNumbersForAnyNumberOfThreads) {
  int before = get_num_threads();
  std::vector<Tensor> first;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    manual_seed(42);
    std::vector<Tensor> drawn = {rand({100000}),
                                 randn({77, 1303}),
                                 randint(0, 10, {50000}),
                                 randn({40000}, kDouble),
                                 randperm(5000),
                                 bernoulli(full({60000}, 0.3)),
                                 empty({30000}).exponential_(),
                                 dropout(ones({50000}), 0.5, true),
                                 multinomial(rand({4, 50}), 20),
                                 rand({1001}, kBFloat16)};
    if (first.empty()) first = drawn;
    for (size_t i = 0; i < drawn.size(); ++i)
      EXPECT_TRUE(drawn[i].equal(first[i])) << threads << " threads, draw " << i;
  }
  set_num_threads(before);
}

TEST(Random, FirstNumbersOfASeedAreFixed) {
  // These values are part of the library's promise: a change here changes every seeded program.
  manual_seed(0);
  Tensor u = rand({4});
  auto block = philox4x32_10(0, 0);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(u[i].item<float>(), static_cast<float>(block[static_cast<size_t>(i)] >> 8) * 0x1p-24f);
  manual_seed(0);
  Tensor z = randn({2}, kDouble);
  uint64_t w0 = static_cast<uint64_t>(block[1]) << 32 | block[0], w1 = static_cast<uint64_t>(block[3]) << 32 | block[2];
  double u0 = static_cast<double>(w0 >> 11) * 0x1p-53 + 0x1p-54, u1 = static_cast<double>(w1 >> 11) * 0x1p-53;
  EXPECT_NEAR(z[0].item<double>(), std::sqrt(-2 * std::log(u0)) * std::cos(2 * M_PI * u1), 1e-14);
  EXPECT_NEAR(z[1].item<double>(), std::sqrt(-2 * std::log(u0)) * std::sin(2 * M_PI * u1), 1e-14);
}

TEST(Random, StridedTargetsGetTheNumbersOfContiguousOnes) {
  manual_seed(5);
  Tensor plain = empty({30, 40}).normal_();
  manual_seed(5);
  Tensor transposed = empty({40, 30}).t();
  transposed.normal_();
  EXPECT_TRUE(plain.equal(transposed));
}

TEST(Random, GeneratorsKeepTheirPlace) {
  Generator g = make_generator(9);
  rand({10}, g);
  Tensor state = g.get_state();
  Tensor a = randn({100}, g);
  g.set_state(state);
  EXPECT_TRUE(a.equal(randn({100}, g)));
  Generator copy = g.clone();
  EXPECT_TRUE(rand({7}, g).equal(rand({7}, copy)));
  EXPECT_FALSE(rand({7}, g).equal(rand({7}, make_generator(10))));
}

// Largest distance between the empirical distribution and `cdf` (Kolmogorov and Smirnov), times sqrt(n). Beyond 2.2 has
// a chance of one in 10 000.
template <class Cdf>
double ks(const Tensor& t, Cdf cdf) {
  Tensor sorted = std::get<0>(t.to(kDouble).flatten().sort());
  const double* x = sorted.data_ptr<double>();
  int64_t n = sorted.numel();
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    double f = cdf(x[i]);
    worst = std::max({worst, std::abs(f - static_cast<double>(i) / static_cast<double>(n)),
                      std::abs(f - static_cast<double>(i + 1) / static_cast<double>(n))});
  }
  return worst * std::sqrt(static_cast<double>(n));
}

TEST(Random, DistributionsFitTheirFunctions) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(seed_text());
  manual_seed(seed);
  constexpr double kLimit = 2.5;
  for (ScalarType t : {kFloat, kDouble}) {
    EXPECT_LT(ks(rand({40000}, t), [](double x) { return std::clamp(x, 0.0, 1.0); }), kLimit);
    EXPECT_LT(ks(randn({40000}, t), [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }), kLimit);
    EXPECT_LT(ks(empty({40000}, t).exponential_(2.0), [](double x) { return 1 - std::exp(-2 * x); }), kLimit);
    EXPECT_LT(ks(empty({40000}, t).cauchy_(1.0, 2.0), [](double x) { return 0.5 + std::atan((x - 1) / 2) / M_PI; }),
              kLimit);
    EXPECT_LT(ks(empty({40000}, t).uniform_(-3, 5), [](double x) { return (x + 3) / 8; }), kLimit);
  }
  Tensor z = randn({1000000});
  EXPECT_NEAR(z.mean().item<double>(), 0, 0.006);
  EXPECT_NEAR(z.var().item<double>(), 1, 0.01);
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 0.08);
  Tensor pairs = z.view({-1, 2});
  EXPECT_NEAR((pairs.select(1, 0) * pairs.select(1, 1)).mean().item<double>(), 0, 0.008);
}

TEST(Random, DiscreteDistributions) {
  uint64_t seed = test_seed();
  SCOPED_TRACE(seed_text());
  manual_seed(seed);
  Tensor dice = randint(1, 7, {60000});
  EXPECT_EQ(dice.min().item<int64_t>(), 1);
  EXPECT_EQ(dice.max().item<int64_t>(), 6);
  for (int64_t face = 1; face <= 6; ++face) EXPECT_NEAR(dice.eq(face).sum().item<double>(), 10000, 500);
  Tensor wide = randint(INT64_MIN, INT64_MAX, {1000});
  EXPECT_LT(wide.min().item<int64_t>(), 0);
  EXPECT_GT(wide.max().item<int64_t>(), 0);
  EXPECT_NEAR(bernoulli(full({50000}, 0.2)).mean().item<double>(), 0.2, 0.01);
  EXPECT_NEAR(empty({50000}).geometric_(0.25).mean().item<double>(), 4.0, 0.15);
  Tensor p = tensor({0.1, 0.0, 0.6, 0.3});
  Tensor picks = multinomial(p, 20000, true);
  EXPECT_EQ(picks.eq(1).sum().item<int64_t>(), 0);
  EXPECT_NEAR(picks.eq(2).sum().item<double>(), 12000, 500);
  Tensor distinct = multinomial(p, 3, false);
  EXPECT_TRUE(std::get<0>(distinct.sort()).equal(tensor({0, 2, 3})));
  Tensor perm = randperm(1000);
  EXPECT_TRUE(std::get<0>(perm.sort()).equal(arange(1000)));
  EXPECT_FALSE(perm.equal(arange(1000)));
}

TEST(Random, UniformNeverReachesItsEnd) {
  manual_seed(3);
  Tensor u = empty({200000}).uniform_(0.9999999, 1.0);
  EXPECT_LT(u.max().item<double>(), 1.0);
  EXPECT_GE(rand({100000}, kHalf).to(kFloat).min().item<double>(), 0.0);
}

TEST(Random, DropoutKeepsTheMean) {
  manual_seed(test_seed());
  SCOPED_TRACE(seed_text());
  Tensor x = full({100000}, 2.0f), y = dropout(x, 0.25, true);
  EXPECT_NEAR(y.mean().item<double>(), 2.0, 0.03);
  EXPECT_NEAR(y.eq(0).to(kFloat).mean().item<double>(), 0.25, 0.01);
  EXPECT_TRUE(dropout(x, 0.25, false).is_same(x));
  EXPECT_EQ(dropout(x, 1.0, true).abs().sum().item<double>(), 0.0);
}

}  // namespace
