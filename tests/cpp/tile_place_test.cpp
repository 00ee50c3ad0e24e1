// Where an element stands and what stands beside it must not show in its result: tiles are cut for threads, some formulas run on several
// vectors side by side, others leave the short way when one element of a vector needs the long one. Also the accuracy of gelu, whose
// bound is no constant.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "cpp/seed.h"
#include "cpu/simd/tile_ops.h"

namespace {

using namespace facula;

// Every bit of the payload is set, as GPUs write NaN: it shows where a formula works on the bits of its argument.
template <class T>
const T kNanOfOnes = static_cast<T>(std::nan("0x7ffffffffffff"));

// Ordinary numbers, among them now and then one of any size, and one that is special.
template <class T>
std::vector<T> draw(size_t n, std::mt19937_64& rng) {
  using Lim = std::numeric_limits<T>;
  const T special[] = {T(0),          T(-0.0),     Lim::infinity(), -Lim::infinity(), Lim::quiet_NaN(),
                       kNanOfOnes<T>, Lim::max(),  Lim::lowest(),   Lim::min(),       Lim::denorm_min(),
                       T(-126.5),     T(-1022.25), T(88.5),         T(-1e5)};
  std::normal_distribution<double> normal(0, 2);
  std::vector<T> x(n);
  for (T& v : x) {
    const uint64_t kind = rng() % 64;
    v = static_cast<T>(normal(rng));
    if (kind == 0) v = special[rng() % std::size(special)];
    if (kind == 1) v = std::ldexp(v, static_cast<int>(rng() % 240) - 120);
  }
  return x;
}

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (std::isnan(a) && std::isnan(b));
}

template <class T>
void expect_the_same_at_every_place(int64_t target, ScalarOp op, CType type) {
  const cpu::TileFn fn = cpu::tile_fn_for_target(target, op, type);
  if (fn == nullptr || info(op).arity != 1 || info(op).result != ResultKind::Same) return;
  std::mt19937_64 rng(facula_test::test_seed());
  const size_t n = 1111;
  const std::vector<T> x = draw<T>(n, rng);
  std::vector<T> whole(n), part(n);
  fn(x.data(), nullptr, nullptr, whole.data(), n);
  for (size_t begin = 0; begin < n;) {
    const size_t length = std::min<size_t>(1 + rng() % (rng() % 4 == 0 ? 200 : 12), n - begin);
    fn(x.data() + begin, nullptr, nullptr, part.data() + begin, length);
    begin += length;
  }
  for (size_t i = 0; i < n; ++i)
    ASSERT_TRUE(same_bits(whole[i], part[i]))
        << info(op).name << " of " << std::hexfloat << x[i] << " is " << whole[i] << " in one tile and " << part[i]
        << " in a shorter one, on " << cpu::target_name(target);
}

TEST(TilePlace, DoesNotShowInResults) {
  SCOPED_TRACE(facula_test::seed_text());
  for (const int64_t target : cpu::available_targets())
    for (size_t k = 0; k < kScalarOpCount && !HasFatalFailure(); ++k) {
      expect_the_same_at_every_place<float>(target, static_cast<ScalarOp>(k), CType::F32);
      expect_the_same_at_every_place<double>(target, static_cast<ScalarOp>(k), CType::F64);
    }
}

// The exponent of the lower tail grows with the square of x, and with it what one rounding of it does to the result.
TEST(Gelu, IsAccurateInTheLowerTail) {
  SCOPED_TRACE(facula_test::seed_text());
  std::mt19937_64 rng(facula_test::test_seed());
  std::uniform_real_distribution<float> uniform(-5.5, 5.5);
  std::vector<float> x(20000), got(x.size());
  for (float& v : x) v = uniform(rng);
  for (size_t i = 0; i < x.size(); i += 3) x[i] = std::ldexp(x[i], -static_cast<int>(rng() % 40));
  for (const int64_t target : cpu::available_targets()) {
    cpu::tile_fn_for_target(target, ScalarOp::gelu, CType::F32)(x.data(), nullptr, nullptr, got.data(), x.size());
    // Without a fused multiply-add every step of the polynomial rounds twice.
    const double room = std::string_view(cpu::target_name(target)) == "SSE4" ? 1.5 : 1.25;
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], want = 0.5 * v * std::erfc(-v / std::sqrt(2.0));
      ASSERT_NEAR(got[i], want, std::abs(want) * (4 + 2 * v * v) * room * std::ldexp(1.0, -24))
          << "gelu of " << x[i] << " on " << cpu::target_name(target);
    }
  }
}

TEST(Gelu, EndsInZeroAndInItsArgument) {
  using Lim = std::numeric_limits<float>;
  const std::vector<float> x = {
      Lim::max(), 100, 13.5, -13.5, -100, Lim::lowest(), Lim::infinity(), Lim::quiet_NaN(), -7, -Lim::infinity()};
  const std::vector<float> want = {Lim::max(), 100, 13.5, 0, 0, 0, Lim::infinity()};
  for (const int64_t target : cpu::available_targets()) {
    std::vector<float> got(x.size());
    cpu::tile_fn_for_target(target, ScalarOp::gelu, CType::F32)(x.data(), nullptr, nullptr, got.data(), x.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]) << x[i] << " on " << cpu::target_name(target);
    EXPECT_TRUE(std::isnan(got[7])) << cpu::target_name(target);
    EXPECT_LT(got[8], 0) << cpu::target_name(target);
    EXPECT_GT(got[8], -1.5e-11) << cpu::target_name(target);
    EXPECT_TRUE(std::isnan(got[9])) << cpu::target_name(target);  // as in PyTorch: infinity times 0
  }
}

}  // namespace
