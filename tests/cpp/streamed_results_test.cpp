// Results so large that they go to memory past the cache: the same numbers as everywhere, at any address, and not where memory is also read.
#include "cpu/copy_kernels.h"
#include "seed.h"

#include <facula/facula.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace {

using namespace facula;
using namespace facula::indexing;
using facula_test::seed_text;
using facula_test::test_seed;

// A little more than the least that streams, and no whole number of lines, tiles or rows.
constexpr int64_t kBytes = (48 << 20) + 4096 + 52;

class StreamedResults : public testing::Test {
 protected:
  StreamedResults() {
    manual_seed(test_seed());
    set_num_threads(2);
  }
  ~StreamedResults() override { set_num_threads(before_); }

  // Whole numbers that all types hold, at an address that begins no line.
  static Tensor numbers(int64_t n, ScalarType dtype, int64_t offset = 3) {
    return randint(0, 100, {n + offset}, kInt).to(dtype).slice(0, offset);
  }

  int before_ = get_num_threads();
  testing::ScopedTrace trace_{__FILE__, __LINE__, seed_text()};
};

// The first element that differs from what `want` says, or -1.
template <class T, class F>
int64_t first_wrong(const Tensor& got, F want) {
  const T* p = got.data_ptr<T>();
  for (int64_t i = 0; i < got.numel(); ++i)
    if (!(p[i] == static_cast<T>(want(i)))) return i;
  return -1;
}

TEST_F(StreamedResults, BytesReachMemoryAtAnyAddress) {
  ASSERT_FALSE(detail::worth_streaming(1 << 20));
  ASSERT_EQ(detail::worth_streaming(kBytes), detail::worth_streaming(INT64_MAX)) << "too small for these tests";
  std::mt19937_64 rng(test_seed());
  std::vector<char> from(4096), to(4096 + 256);
  for (char& c : from) c = static_cast<char>(rng());
  for (int round = 0; round < 2000; ++round) {
    const size_t n = rng() % (round % 2 ? 300 : from.size()), at = rng() % 128, skip = rng() % (from.size() - n);
    std::fill(to.begin(), to.end(), 'x');
    detail::stream_bytes(to.data() + at, from.data() + skip, static_cast<int64_t>(n));
    detail::end_stream();
    ASSERT_EQ(std::memcmp(to.data() + at, from.data() + skip, n), 0) << n << " bytes to " << at << " from " << skip;
    ASSERT_TRUE(std::all_of(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(at), [](char c) { return c == 'x'; }));
    ASSERT_TRUE(
        std::all_of(to.begin() + static_cast<std::ptrdiff_t>(at + n), to.end(), [](char c) { return c == 'x'; }));
  }
}

TEST_F(StreamedResults, OneOperation) {
  const int64_t n = kBytes / 4;
  const Tensor a = numbers(n, kFloat), b = numbers(n, kFloat, 5);
  const float *x = a.data_ptr<float>(), *y = b.data_ptr<float>();
  EXPECT_EQ(first_wrong<float>(a - b, [&](int64_t i) { return x[i] - y[i]; }), -1);
  EXPECT_EQ(first_wrong<float>(a * 2.0 + 1.0, [&](int64_t i) { return x[i] * 2 + 1; }), -1);
  EXPECT_EQ(first_wrong<float>(where(a > b, a, b), [&](int64_t i) { return std::max(x[i], y[i]); }), -1);
  EXPECT_EQ(first_wrong<float>(3.0 - a, [&](int64_t i) { return 3 - x[i]; }), -1);
  const Tensor c = numbers(n / 2, kDouble), d = numbers(n / 2, kDouble, 5);
  const double *u = c.data_ptr<double>(), *v = d.data_ptr<double>();
  EXPECT_EQ(first_wrong<double>(c * d, [&](int64_t i) { return u[i] * v[i]; }), -1);
  EXPECT_EQ(first_wrong<double>(minimum(c, d), [&](int64_t i) { return std::min(u[i], v[i]); }), -1);
  Tensor room = full({n + 9}, -1.0f);
  Tensor out = room.slice(0, 2, n + 2);
  add_out(out, a, b);
  EXPECT_EQ(first_wrong<float>(out, [&](int64_t i) { return x[i] + y[i]; }), -1);
  for (int64_t i : {0, 1}) EXPECT_EQ(room[i].item<float>(), -1.0f) << "before the result";
  for (int64_t i = n + 2; i < n + 9; ++i) EXPECT_EQ(room[i].item<float>(), -1.0f) << "behind the result";
  Tensor same = a.clone();
  same += b;
  EXPECT_EQ(first_wrong<float>(same, [&](int64_t i) { return x[i] + y[i]; }), -1);
  mul_out(same, same, same);
  EXPECT_EQ(first_wrong<float>(same, [&](int64_t i) { return (x[i] + y[i]) * (x[i] + y[i]); }), -1);
}

TEST_F(StreamedResults, EveryWidth) {
  const Tensor half = numbers(kBytes / 2, kBFloat16), wide = numbers(kBytes / 8, kLong),
               pairs = numbers(kBytes / 16, kComplexDouble), small = numbers(kBytes, kByte);
  const Tensor h = half.to(kFloat);
  EXPECT_EQ(first_wrong<float>((half + half).to(kFloat), [&](int64_t i) { return 2 * h.data_ptr<float>()[i]; }), -1);
  EXPECT_EQ(first_wrong<int64_t>(wide * wide,
                                 [&](int64_t i) { return wide.data_ptr<int64_t>()[i] * wide.data_ptr<int64_t>()[i]; }),
            -1);
  const Tensor p = view_as_real(pairs + pairs);
  const Tensor q = view_as_real(pairs);
  EXPECT_EQ(first_wrong<double>(p, [&](int64_t i) { return 2 * q.data_ptr<double>()[i]; }), -1);
  EXPECT_EQ(first_wrong<uint8_t>(small + small, [&](int64_t i) { return 2 * small.data_ptr<uint8_t>()[i]; }), -1);
}

TEST_F(StreamedResults, Casts) {
  const Tensor a = numbers(kBytes / 4, kFloat), b = numbers(kBytes / 2, kFloat);
  const float* x = a.data_ptr<float>();
  EXPECT_EQ(first_wrong<double>(a.to(kDouble), [&](int64_t i) { return x[i]; }), -1);
  EXPECT_EQ(first_wrong<int64_t>(a.to(kLong), [&](int64_t i) { return x[i]; }), -1);
  const Tensor half = b.to(kHalf), back = half.to(kFloat);
  EXPECT_EQ(first_wrong<float>(back, [&](int64_t i) { return b.data_ptr<float>()[i]; }), -1);
  // Computed in another type than the one that is stored.
  Tensor narrow = empty({a.size(0) * 2}, kHalf);
  mul_out(narrow, half.slice(0, 0, narrow.size(0)), full({1}, 3, kHalf));
  EXPECT_EQ(first_wrong<float>(narrow.to(kFloat), [&](int64_t i) { return back.data_ptr<float>()[i] * 3; }), -1);
}

TEST_F(StreamedResults, RowsAndColumns) {
  const int64_t cols = 1037, rows = kBytes / 4 / cols + 1;
  const Tensor a = numbers(rows * cols, kFloat).view({rows, cols}), row = numbers(cols, kFloat),
               column = numbers(rows, kFloat).view({rows, 1});
  const float *x = a.data_ptr<float>(), *r = row.data_ptr<float>(), *c = column.data_ptr<float>();
  EXPECT_EQ(first_wrong<float>(a + row, [&](int64_t i) { return x[i] + r[i % cols]; }), -1);
  EXPECT_EQ(first_wrong<float>(a + column, [&](int64_t i) { return x[i] + c[i / cols]; }), -1);
  EXPECT_EQ(first_wrong<float>(a + row * column, [&](int64_t i) { return x[i] + r[i % cols] * c[i / cols]; }), -1);
  // A result whose rows lie apart.
  Tensor room = full({rows, cols + 11}, -1.0f);
  Tensor out = room.index({Slice(), Slice(4, cols + 4)});
  add_out(out, a, row);
  EXPECT_EQ(first_wrong<float>(out.contiguous(), [&](int64_t i) { return x[i] + r[i % cols]; }), -1);
  EXPECT_EQ(room.index({Slice(), Slice(0, 4)}).max().item<float>(), -1.0f);
  EXPECT_EQ(room.index({Slice(), Slice(cols + 4)}).max().item<float>(), -1.0f);
}

TEST_F(StreamedResults, CopiesAndJoins) {
  const int64_t cols = 517, rows = kBytes / 4 / cols + 1;
  const Tensor a = numbers(rows * cols, kFloat).view({rows, cols}), b = numbers(rows * 3, kFloat).view({rows, 3});
  const float *x = a.data_ptr<float>(), *y = b.data_ptr<float>();
  EXPECT_EQ(first_wrong<float>(a.clone(), [&](int64_t i) { return x[i]; }), -1);
  Tensor room = full({rows, cols + 5}, -1.0f);
  room.index({Slice(), Slice(1, cols + 1)}).copy_(a);
  EXPECT_EQ(first_wrong<float>(room,
                               [&](int64_t i) {
                                 const int64_t at = i % (cols + 5) - 1;
                                 return at < 0 || at >= cols ? -1.0f : x[i / (cols + 5) * cols + at];
                               }),
            -1);
  EXPECT_EQ(first_wrong<float>(cat({a, b, a}, 1),
                               [&](int64_t i) {
                                 const int64_t row = i / (2 * cols + 3), at = i % (2 * cols + 3);
                                 if (at >= cols && at < cols + 3) return y[row * 3 + at - cols];
                                 return x[row * cols + (at < cols ? at : at - cols - 3)];
                               }),
            -1);
}

}  // namespace
