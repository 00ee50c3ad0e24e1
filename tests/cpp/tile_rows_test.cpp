// The same operation element by element, over arrays of every short length, in place, and over rows that lie apart or repeat: the same bits,
// on every instruction set.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cpp/seed.h"
#include "cpu/simd/tile_ops.h"

namespace {

using namespace facula;

template <class T>
constexpr CType kType = sizeof(T) == 4 ? CType::F32 : CType::F64;
constexpr size_t kGuard = 40;
constexpr double kUntouched = -12345;

template <class T>
std::vector<T> draw(std::mt19937_64& rng, size_t n) {
  std::uniform_real_distribution<double> values(-2, 2);
  std::vector<T> v(n);
  for (T& x : v) x = static_cast<T>(values(rng));
  return v;
}

template <class T>
std::vector<T> with_guard(std::vector<T> v) {
  v.resize(v.size() + kGuard, static_cast<T>(kUntouched));
  return v;
}

// NaN is NaN: which one comes out is the processor's choice.
template <class T>
void expect_same(const std::vector<T>& got, const std::vector<T>& wanted, const char* what) {
  const size_t n = wanted.size();
  ASSERT_EQ(got.size(), n + kGuard);
  for (size_t i = 0; i < n; ++i)
    ASSERT_TRUE((got[i] != got[i] && wanted[i] != wanted[i]) || std::memcmp(&got[i], &wanted[i], sizeof(T)) == 0)
        << what << ": " << got[i] << " instead of " << wanted[i] << " at " << i << " of " << n;
  for (size_t i = n; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<T>(kUntouched)) << what << " wrote past " << n;
}

template <class T>
void check_lengths(cpu::TileFn fn, int arity, std::mt19937_64& rng) {
  for (size_t n = 1; n < 150 && !testing::Test::HasFatalFailure(); n += n < 40 ? 1 : 7) {
    const std::vector<T> in[3] = {draw<T>(rng, n), draw<T>(rng, n), draw<T>(rng, n)};
    std::vector<T> wanted(n);
    for (size_t i = 0; i < n; ++i) fn(&in[0][i], &in[1][i], &in[2][i], &wanted[i], 1);
    std::vector<T> out = with_guard(std::vector<T>(n));
    fn(in[0].data(), in[1].data(), in[2].data(), out.data(), n);
    expect_same(out, wanted, "a result of its own");
    for (int k = 0; k < arity; ++k) {
      std::vector<T> both = with_guard(in[k]);
      const T* args[3] = {in[0].data(), in[1].data(), in[2].data()};
      args[k] = both.data();
      fn(args[0], args[1], args[2], both.data(), n);
      expect_same(both, wanted, "in place");
    }
  }
}

template <class T>
void check_rows(cpu::TileFn fn, cpu::TileRowsFn rows_fn, std::mt19937_64& rng) {
  for (size_t cols : {1, 3, 16, 31, 64, 70, 96, 129}) {
    constexpr size_t kRows = 5;
    for (size_t a_apart : {size_t{0}, cols, cols + 3})
      for (size_t b_apart : {size_t{0}, cols, cols + 3})
        for (bool one_element : {false, true}) {
          const std::vector<T> a = draw<T>(rng, kRows * (cols + 3)), b = draw<T>(rng, kRows * (cols + 3));
          std::vector<T> wanted(kRows * cols);
          for (size_t r = 0; r < kRows; ++r)
            for (size_t c = 0; c < cols; ++c)
              fn(&a[r * a_apart + c], &b[r * b_apart + (one_element ? 0 : c)], nullptr, &wanted[r * cols + c], 1);
          auto apart = [](size_t elements) { return static_cast<ptrdiff_t>(elements * sizeof(T)); };
          std::vector<T> out = with_guard(std::vector<T>(kRows * cols));
          rows_fn({a.data(), apart(a_apart)}, {b.data(), apart(b_apart), one_element}, out.data(), kRows, cols);
          expect_same(out, wanted, "rows");
          auto dense = [&](const std::vector<T>& v) {
            return with_guard(std::vector<T>(v.begin(), v.begin() + static_cast<ptrdiff_t>(kRows * cols)));
          };
          if (a_apart == cols) {
            std::vector<T> both = dense(a);
            rows_fn({both.data(), apart(cols)}, {b.data(), apart(b_apart), one_element}, both.data(), kRows, cols);
            expect_same(both, wanted, "rows in place of the first");
          }
          if (b_apart == cols && !one_element) {
            std::vector<T> both = dense(b);
            rows_fn({a.data(), apart(a_apart)}, {both.data(), apart(cols)}, both.data(), kRows, cols);
            expect_same(both, wanted, "rows in place of the second");
          }
          if (testing::Test::HasFatalFailure()) return;
        }
  }
}

template <class T>
void check_all(std::mt19937_64& rng) {
  for (int64_t target : cpu::available_targets()) {
    int with_rows = 0;
    for (size_t k = 0; k < kScalarOpCount; ++k) {
      const auto op = static_cast<ScalarOp>(k);
      cpu::TileFn fn = cpu::tile_fn_for_target(target, op, kType<T>);
      if (!fn || op == ScalarOp::where || info(op).result != ResultKind::Same) continue;
      SCOPED_TRACE(std::string(info(op).name) + " on " + cpu::target_name(target));
      check_lengths<T>(fn, info(op).arity, rng);
      cpu::TileRowsFn rows_fn = cpu::tile_fn_rows_for_target(target, op, kType<T>);
      if (!rows_fn) continue;
      ++with_rows;
      check_rows<T>(fn, rows_fn, rng);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GE(with_rows, 5) << cpu::target_name(target);
  }
}

TEST(TileRows, LengthsRowsAndPlacesHaveTheSameBits) {
  SCOPED_TRACE(facula_test::seed_text());
  std::mt19937_64 rng(facula_test::test_seed());
  check_all<float>(rng);
  check_all<double>(rng);
}

}  // namespace
