// Operations that read and write bfloat16 themselves: the bits must be those of widening, the operation on float and
// rounding, on every instruction set, for every value and at every length.
#include <gtest/gtest.h>

#include <facula/core/number_types.h>

#include <algorithm>
#include <random>
#include <vector>

#include "cpp/seed.h"
#include "cpu/simd/tile_ops.h"

namespace {

using namespace facula;

// NaN is NaN: which one comes out of an operation with two of them is the processor's choice.
uint16_t without_payload(uint16_t bits) { return (bits & 0x7fff) > 0x7f80 ? 0x7fc0 : bits; }

void expect_same(int64_t target, ScalarOp op, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b,
                 bool in_place) {
  const size_t n = a.size();
  auto widen = [](const std::vector<uint16_t>& v) {
    std::vector<float> wide(v.size());
    for (size_t i = 0; i < v.size(); ++i) wide[i] = BFloat16(v[i], BFloat16::from_bits_t{});
    return wide;
  };
  const std::vector<float> x = widen(a), y = widen(b);
  std::vector<float> wanted(n);
  cpu::tile_fn_for_target(target, op, CType::F32)(x.data(), y.data(), nullptr, wanted.data(), n);
  std::vector<uint16_t> got = a;
  got.resize(n + 40, 0x1234);  // must stay
  cpu::tile_fn_bfloat16_for_target(target, op)(in_place ? got.data() : a.data(), b.data(), nullptr, got.data(), n);
  for (size_t i = 0; i < n; ++i)
    ASSERT_EQ(without_payload(got[i]), without_payload(BFloat16(wanted[i]).x))
        << info(op).name << " of " << x[i] << " and " << y[i] << " at " << i << " of " << n << " on "
        << cpu::target_name(target);
  ASSERT_TRUE(std::all_of(got.begin() + static_cast<ptrdiff_t>(n), got.end(), [](uint16_t v) { return v == 0x1234; }));
}

TEST(TileBFloat16, HasTheBitsOfFloatRoundedOnce) {
  SCOPED_TRACE(facula_test::seed_text());
  std::mt19937_64 rng(facula_test::test_seed());
  std::vector<uint16_t> all(1 << 16), other(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i), other[i] = static_cast<uint16_t>(rng());
  int tested = 0;
  for (int64_t target : cpu::available_targets())
    for (size_t k = 0; k < kScalarOpCount; ++k) {
      const auto op = static_cast<ScalarOp>(k);
      if (!cpu::tile_fn_bfloat16_for_target(target, op)) continue;
      ++tested;
      expect_same(target, op, all, other, false);
      expect_same(target, op, all, other, true);
      // Up to twice what long formulas take at once, and what is left of it.
      for (size_t n = 0; n < 290 && !HasFatalFailure(); n += n < 70 ? 1 : 1 + rng() % 20)
        expect_same(target, op, {all.begin() + 16000, all.begin() + 16000 + static_cast<ptrdiff_t>(n)},
                    {other.begin(), other.begin() + static_cast<ptrdiff_t>(n)}, n % 2 == 0);
    }
  EXPECT_GE(tested, 10);
}

}  // namespace
