// Matrix products on the GPU against sums in double: random shapes, layouts, batches, factors and types, through our own kernels and, where there
// is one, through the vendor's library.
#include "gpu/matmul/matmul.h"
#include "cpp/seed.h"
#include "device_memory.h"
#include "error_text.h"
#include "gpu/graph.h"
#include "gpu/libs/blas.h"
#include "gpu/matmul/matmul_shape.h"
#include "libraries.h"

#include <facula/core/number_types.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

namespace facula::testing {
namespace {

using facula_test::seed_text;
using facula_test::test_seed;
using Wide = std::complex<double>;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class T>
constexpr bool is_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, Wide>;

template <class T>
Wide widened(T value) {
  if constexpr (is_complex<T>) return {value.real(), value.imag()};
  else if constexpr (is_narrow_float_v<T>) return static_cast<float>(value);
  else return static_cast<double>(value);
}
template <class T>
T narrowed(double re, double im) {
  if constexpr (is_complex<T>)
    return T(static_cast<typename T::value_type>(re), static_cast<typename T::value_type>(im));
  else return T(re);
}

// Whether a library may round parts of a sum of 16-bit numbers to 16 bits.
class ReducedScope {
 public:
  explicit ReducedScope(bool allow) { set(allow, allow); }
  ~ReducedScope() { set(half_, bfloat16_); }
  ReducedScope(const ReducedScope&) = delete;

 private:
  static void set(bool half, bool bfloat16) {
    gpu::set_allow_fp16_reduced_precision_reduction(half);
    gpu::set_allow_bf16_reduced_precision_reduction(bfloat16);
  }
  const bool half_ = gpu::allow_fp16_reduced_precision_reduction();
  const bool bfloat16_ = gpu::allow_bf16_reduced_precision_reduction();
};

class Draw {
 public:
  explicit Draw(uint64_t salt) : engine_(test_seed() ^ (salt * 0x9e3779b97f4a7c15u)) {}
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  bool one_in(int64_t n) { return between(1, n) == 1; }
  double number() { return std::uniform_real_distribution<double>(-2, 2)(engine_); }

 private:
  std::mt19937_64 engine_;
};

enum class Layout { Rows, Columns, PaddedRows, PaddedColumns, EverySecond, RepeatedRow, Count };
enum class Batching { Strided, Same, Inner, Outer, Shuffled, Count };

// Matrices of a batch in the host's memory and how they lie there.
template <class T>
struct Matrices {
  std::vector<T> values;
  MatrixArg arg;
  std::vector<int64_t> offsets;

  Matrices(Draw& draw, int64_t batch, int64_t rows, int64_t cols, Layout layout, Batching batching) {
    const int64_t pad = draw.one_in(2) ? 8 * draw.between(0, 2) : draw.between(0, 5);
    switch (layout) {
      case Layout::Rows: arg.row_stride = cols, arg.col_stride = 1; break;
      case Layout::Columns: arg.row_stride = 1, arg.col_stride = rows; break;
      case Layout::PaddedRows: arg.row_stride = cols + pad, arg.col_stride = 1; break;
      case Layout::PaddedColumns: arg.row_stride = 1, arg.col_stride = rows + pad; break;
      case Layout::EverySecond: arg.row_stride = 2 * cols + 1, arg.col_stride = 2; break;
      default: arg.row_stride = 0, arg.col_stride = 1;
    }
    const bool empty = rows == 0 || cols == 0;
    int64_t each = empty ? 1 : (rows - 1) * arg.row_stride + (cols - 1) * arg.col_stride + 1;
    if (draw.one_in(2)) each = (each + 15) / 16 * 16;  // so that all of them are aligned
    values.resize(static_cast<size_t>(each * batch));
    for (T& value : values)
      value = std::is_integral_v<T> ? narrowed<T>(static_cast<double>(draw.between(-100, 100)), 0)
                                    : narrowed<T>(draw.number(), draw.number());
    arg.batch_stride = batching == Batching::Same ? 0 : each;
    if (batching == Batching::Inner || batching == Batching::Outer || batching == Batching::Shuffled) {
      for (int64_t i = 0; i < batch; ++i) {
        const int64_t inner = batch % 2 == 0 ? i % 2 : 0, outer = i / 2, shuffled = i * 5 % batch;
        offsets.push_back(each * (batching == Batching::Inner   ? inner
                                  : batching == Batching::Outer ? outer
                                                                : shuffled));
      }
      arg.batch_offsets = offsets.data();
    }
  }
  T at(int64_t batch, int64_t row, int64_t col) const {
    return values[static_cast<size_t>(arg.offset(batch) + row * arg.row_stride + col * arg.col_stride)];
  }
  size_t bytes() const { return values.size() * sizeof(T); }
};

struct Shape {
  int64_t batch, m, n, k;
};

// How far a product may be from the exact one: `sums` of the sum of magnitudes for the additions, `result` of the result for its rounding, and
// the step of the smallest numbers.
struct Tolerance {
  double sums, result, least;
};

template <class T>
struct TypeInfo;
#define FACULA_TEST_TYPE(T, scalar_type, ...)            \
  template <>                                            \
  struct TypeInfo<T> {                                   \
    static constexpr ScalarType kType = scalar_type;     \
    static constexpr Tolerance kTolerance = __VA_ARGS__; \
  };
FACULA_TEST_TYPE(float, kFloat, {1e-6, 0, 0})
FACULA_TEST_TYPE(double, kDouble, {1e-14, 0, 0})
FACULA_TEST_TYPE(Half, kHalf, {1e-6, 0x1p-11 * 1.01, 0x1p-24})
FACULA_TEST_TYPE(BFloat16, kBFloat16, {1e-6, 0x1p-8 * 1.01, 0})
FACULA_TEST_TYPE(Float8_e5m2, kFloat8_e5m2, {1e-6, 0x1p-3 * 1.01, 0x1p-16})
FACULA_TEST_TYPE(Float8_e4m3fn, kFloat8_e4m3fn, {1e-6, 0x1p-4 * 1.01, 0x1p-9})
FACULA_TEST_TYPE(std::complex<float>, kComplexFloat, {2e-6, 0, 0})
FACULA_TEST_TYPE(Wide, kComplexDouble, {2e-14, 0, 0})
FACULA_TEST_TYPE(uint8_t, kByte, {0, 0, 0})
FACULA_TEST_TYPE(int8_t, kChar, {0, 0, 0})
FACULA_TEST_TYPE(int16_t, kShort, {0, 0, 0})
FACULA_TEST_TYPE(int32_t, kInt, {0, 0, 0})
FACULA_TEST_TYPE(int64_t, kLong, {0, 0, 0})
FACULA_TEST_TYPE(uint16_t, kUInt16, {0, 0, 0})
FACULA_TEST_TYPE(uint32_t, kUInt32, {0, 0, 0})
FACULA_TEST_TYPE(uint64_t, kUInt64, {0, 0, 0})
#undef FACULA_TEST_TYPE

// One random product of In into Out and its comparison. With `through_bias` a row vector is added.
template <class In, class Out = In>
void compare(Draw& draw, const Shape& s, bool through_bias = false, double looser = 1) {
  constexpr bool int8_to_32 = !std::is_same_v<In, Out>;
  const auto layout = [&] { return static_cast<Layout>(draw.between(0, static_cast<int64_t>(Layout::Count) - 1)); };
  const auto batching = [&] {
    return static_cast<Batching>(draw.between(0, static_cast<int64_t>(Batching::Count) - 1));
  };
  const Layout layout_a = layout(), layout_b = layout();
  const Batching batch_a = batching(), batch_b = batching();
  Matrices<In> a(draw, s.batch, s.m, s.k, layout_a, batch_a), b(draw, s.batch, s.k, s.n, layout_b, batch_b);
  Matrices<Out> c(draw, s.batch, s.m, s.n, draw.one_in(2) ? Layout::Rows : Layout::PaddedRows, Batching::Strided);
  Matrices<Out> bias(draw, 1, 1, s.n, Layout::Rows, Batching::Strided);
  MatmulArgs args;
  args.dtype = TypeInfo<In>::kType;
  args.batch = s.batch;
  args.m = s.m;
  args.n = s.n;
  args.k = s.k;
  args.alpha = int8_to_32 || draw.one_in(2) ? 1 : std::is_integral_v<In> ? 3 : 0.75;
  args.beta = int8_to_32 || through_bias || draw.one_in(2) ? 0 : std::is_integral_v<In> ? -2 : 0.5;
  SCOPED_TRACE(::testing::Message() << toString(args.dtype) << " batch " << s.batch << ", " << s.m << "x" << s.k
                                    << " and " << s.k << "x" << s.n << ", layouts " << static_cast<int>(layout_a)
                                    << " and " << static_cast<int>(layout_b) << ", batches "
                                    << static_cast<int>(batch_a) << " and " << static_cast<int>(batch_b) << ", alpha "
                                    << args.alpha << ", beta " << args.beta << ", bias " << through_bias << ", library "
                                    << gpu::allow_blas());

  // Without beta C is not read: what lies there must not be seen.
  if constexpr (!std::is_integral_v<Out>)
    if (args.beta == 0)
      for (int64_t i = 0; i < s.batch; ++i)
        for (int64_t r = 0; r < s.m; ++r)
          for (int64_t j = 0; j < s.n; ++j)
            c.values[static_cast<size_t>(c.arg.offset(i) + r * c.arg.row_stride + j)] =
                narrowed<Out>(std::numeric_limits<double>::quiet_NaN(), 0);
  const size_t shift = draw.one_in(3) ? sizeof(In) * static_cast<size_t>(draw.between(1, 7)) : 0;
  DeviceMemory da(a.values.data(), a.bytes(), shift), db(b.values.data(), b.bytes(), shift),
      dc(c.values.data(), c.bytes(), draw.one_in(3) ? sizeof(Out) : 0), dbias(bias.values.data(), bias.bytes());
  args.a = a.arg;
  args.b = b.arg;
  args.c = c.arg;
  args.a.data = da.data();
  args.b.data = db.data();
  args.c.data = dc.data();
  const gpu::Work work{"mm", 0};
  const bool reduced = gpu::allow_blas() && draw.one_in(2);
  const ReducedScope reduction(reduced);
  if constexpr (int8_to_32) gpu::matmul_int8(args, work);
  else if (through_bias) gpu::matmul_bias(args, dbias.data(), work);
  else gpu::matmul(args, work);
  const std::vector<char> back = dc.bytes();
  std::vector<Out> got(c.values.size());
  std::memcpy(got.data(), back.data(), back.size());

  std::vector<bool> written(got.size(), false);
  const Tolerance t = TypeInfo<Out>::kTolerance;
  for (int64_t i = 0; i < s.batch; ++i)
    for (int64_t r = 0; r < s.m; ++r)
      for (int64_t j = 0; j < s.n; ++j) {
        const auto at = static_cast<size_t>(c.arg.offset(i) + r * c.arg.row_stride + j);
        written[at] = true;
        if constexpr (std::is_integral_v<Out>) {
          const auto bits = [](auto x) { return static_cast<uint64_t>(static_cast<int64_t>(x)); };
          uint64_t sum = 0;
          for (int64_t p = 0; p < s.k; ++p) sum += bits(a.at(i, r, p)) * bits(b.at(i, p, j));
          sum = sum * bits(args.alpha) + (args.beta != 0 ? bits(args.beta) * bits(c.values[at]) : 0) +
                (through_bias ? bits(bias.at(0, 0, j)) : 0);
          ASSERT_EQ(got[at], static_cast<Out>(sum)) << "matrix " << i << ", row " << r << ", column " << j;
        } else {
          Wide sum = 0;
          double magnitude = 0;
          for (int64_t p = 0; p < s.k; ++p) {
            const Wide x = widened(a.at(i, r, p)), y = widened(b.at(i, p, j));
            sum += x * y;
            magnitude += std::abs(x) * std::abs(y);
          }
          Wide want = args.alpha * sum;
          if (args.beta != 0) want += args.beta * widened(c.values[at]);
          if (through_bias) want += widened(bias.at(0, 0, j));
          // The largest numbers of a type may round to what lies beyond.
          if (std::abs(want) > (std::is_same_v<Out, Float8_e4m3fn> ? 400.0
                                : std::is_same_v<Out, Float8_e5m2> ? 5e4
                                                                   : 1e30))
            continue;
          // What is rounded to the type of the result: this itself; parts of the sum, where that is allowed; and the sum
          // before the bias comes to it, which NVIDIA's library adds to rounded numbers where it cuts sums.
          const Wide added = want - args.alpha * sum;
          const double rounded = std::abs(want) + (reduced                             ? magnitude + std::abs(added)
                                                   : through_bias && gpu::allow_blas() ? std::abs(want - added)
                                                                                       : 0.0);
          const double bound = looser * (t.sums * (magnitude + std::abs(want) + 1) + t.result * rounded) + t.least;
          ASSERT_LE(std::abs(widened(got[at]) - want), bound) << "matrix " << i << ", row " << r << ", column " << j
                                                              << ": got " << widened(got[at]) << ", want " << want;
        }
      }
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(written[i] || std::memcmp(&got[i], &c.values[i], sizeof(Out)) == 0) << "gap " << i << " was written to";
}

Shape small_shape(Draw& draw) {
  Shape s{draw.one_in(3) ? draw.between(2, 6) : 1, draw.between(1, 40), draw.between(1, 40), draw.between(1, 70)};
  if (draw.one_in(3)) s.m = (s.m + 7) / 8 * 8, s.n = (s.n + 7) / 8 * 8, s.k = (s.k + 15) / 16 * 16;
  return s;
}

template <class T>
class GpuMatmul : public ::testing::Test {};
using AllTypes = ::testing::Types<float, double, Half, BFloat16, Float8_e5m2, Float8_e4m3fn, std::complex<float>, Wide,
                                  uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(GpuMatmul, AllTypes);

TYPED_TEST(GpuMatmul, SmallProducts) {
  Draw draw(1);
  for (const auto& [library, small] : kWaysOfProducts) {
    BlasScope scope(library, small);
    for (int i = 0; i < 12; ++i) {
      compare<TypeParam>(draw, small_shape(draw), draw.one_in(4), library ? 2 : 1);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(GpuMatmul, MatrixTimesVector) {
  Draw draw(2);
  for (int i = 0; i < 10; ++i) {
    Shape s = small_shape(draw);
    (draw.one_in(2) ? s.m : s.n) = 1;
    if (draw.one_in(3)) s.m = s.n = 1;
    if (i == 0) s = {1, 1, 300, 40};
    if (i == 1) s = {1, 3, 1, 9000};   // the sum is cut
    if (i == 2) s = {1, 40, 1, 7000};  // the vector is copied
    if (i == 3) s = {1, 1, 300, 20};   // many rows
    compare<TypeParam>(draw, s, draw.one_in(4));
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(GpuMatmul, EmptySumsAndSizes) {
  Draw draw(3);
  for (bool library : {false, true}) {
    BlasScope scope(library);
    for (Shape s : {Shape{1, 5, 7, 0}, Shape{3, 1, 4, 0}, Shape{1, 0, 4, 3}, Shape{2, 4, 0, 3}, Shape{1, 1, 1, 1}}) {
      compare<TypeParam>(draw, s, draw.one_in(2));
      if (this->HasFatalFailure()) return;
    }
  }
}

TEST(GpuMatmulShapes, LargerTilesAndCutSums) {
  Draw draw(4);
  for (bool library : {false, true}) {
    BlasScope scope(library);
    compare<float>(draw, {1, 70, 65, 33}, false, 2);
    compare<float>(draw, {1, 130, 257, 40}, true, 2);
    compare<float>(draw, {1, 33, 20, 1500}, false, 2);
    compare<double>(draw, {2, 65, 70, 40}, false, 2);
    compare<BFloat16>(draw, {1, 130, 140, 96}, false, 2);
    compare<BFloat16>(draw, {1, 64, 48, 700}, true, 2);
    compare<Half>(draw, {3, 70, 66, 80}, false, 2);
    compare<std::complex<float>>(draw, {1, 66, 70, 20}, false, 2);
    compare<int32_t>(draw, {1, 129, 130, 20});
    if (HasFatalFailure()) return;
  }
}

// Sums that take several rounds of the kernel for small products, and sizes around its tiles.
TEST(GpuMatmulShapes, SmallProductsWithLongSums) {
  Draw draw(15);
  for (const int64_t k : {1, 63, 64, 65, 128, 200, 512}) {
    compare<float>(draw, {1, draw.between(15, 33), draw.between(15, 33), k}, draw.one_in(2), 2);
    if (k <= 64) compare<BFloat16>(draw, {draw.between(1, 3), 17, 31, k}, draw.one_in(2), 2);
    if (k <= 64) compare<Half>(draw, {1, 16, 48, k}, draw.one_in(2), 2);
    if (HasFatalFailure()) return;
  }
}

TEST(GpuMatmulShapes, Int8IntoInt32) {
  Draw draw(5);
  for (bool library : {false, true}) {
    BlasScope scope(library);
    for (int i = 0; i < 8; ++i) {
      compare<int8_t, int32_t>(draw, small_shape(draw));
      if (HasFatalFailure()) return;
    }
    compare<int8_t, int32_t>(draw, {1, 72, 64, 1024});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuMatmulShapes, RoundedFactorsStayClose) {
  Draw draw(6);
  gpu::set_allow_tf32(true);
  for (bool library : {false, true}) {
    BlasScope scope(library);
    for (Shape s : {Shape{1, 70, 80, 96}, Shape{2, 128, 130, 64}, Shape{1, 20, 20, 20}})
      compare<float>(draw, s, false, 2000);  // ten bits of mantissa
  }
  gpu::set_allow_tf32(false);
}

TEST(GpuMatmulShapes, NanAndInfinityGoThrough) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const auto& [library, small] : kWaysOfProducts) {
    BlasScope scope(library, small);
    for (int64_t n : {1, 5, 40}) {
      const int64_t m = 4, k = 37;
      std::vector<float> a(static_cast<size_t>(m * k), 1.0f), b(static_cast<size_t>(k * n), 1.0f),
          c(static_cast<size_t>(m * n), 9.0f);
      a[static_cast<size_t>(1 * k + 36)] = static_cast<float>(nan);
      a[static_cast<size_t>(2 * k + 3)] = static_cast<float>(inf);
      b[static_cast<size_t>(3 * n)] = 0.0f;  // infinity times zero in column 0
      DeviceMemory da(a.data(), a.size() * 4), db(b.data(), b.size() * 4), dc(c.data(), c.size() * 4);
      MatmulArgs args;
      args.dtype = kFloat;
      args.m = m;
      args.n = n;
      args.k = k;
      args.a = {da.data(), k, 1};
      args.b = {db.data(), n, 1};
      args.c = {dc.data(), n, 1};
      gpu::matmul(args, {"mm", 0});
      const std::vector<char> back = dc.bytes();
      std::memcpy(c.data(), back.data(), back.size());
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_EQ(c[static_cast<size_t>(j)], j == 0 ? 36.0f : 37.0f);
        EXPECT_TRUE(std::isnan(c[static_cast<size_t>(n + j)]));
        if (j == 0) EXPECT_TRUE(std::isnan(c[static_cast<size_t>(2 * n)]));
        else EXPECT_EQ(c[static_cast<size_t>(2 * n + j)], static_cast<float>(inf));
      }
    }
  }
}

TEST(GpuMatmulShapes, GemvIsAProduct) {
  Draw draw(7);
  for (bool columns : {false, true}) {
    const int64_t m = 50, k = 70;
    Matrices<float> a(draw, 1, m, k, columns ? Layout::Columns : Layout::Rows, Batching::Strided);
    Matrices<float> x(draw, 1, k, 1, Layout::Rows, Batching::Strided);
    std::vector<float> y(static_cast<size_t>(m), std::numeric_limits<float>::quiet_NaN());
    DeviceMemory da(a.values.data(), a.bytes()), dx(x.values.data(), x.bytes()), dy(y.data(), y.size() * 4);
    gpu::gemv({kFloat, m, k, da.data(), a.arg.row_stride, a.arg.col_stride, dx.data(), dy.data()}, {"mv", 0});
    const std::vector<char> back = dy.bytes();
    std::memcpy(y.data(), back.data(), back.size());
    for (int64_t r = 0; r < m; ++r) {
      double want = 0;
      for (int64_t p = 0; p < k; ++p) want += static_cast<double>(a.at(0, r, p)) * x.at(0, p, 0);
      EXPECT_NEAR(y[static_cast<size_t>(r)], want, 1e-4);
    }
  }
}

// Matrices of ones, whose product is known.
struct SquareProduct {
  explicit SquareProduct(int64_t n)
      : ones(static_cast<size_t>(n * n), 1.0f),
        a(ones.data(), bytes()),
        b(ones.data(), bytes()),
        c(ones.data(), bytes()) {
    args.dtype = kFloat;
    args.m = args.n = args.k = n;
    args.a = {a.data(), n, 1};
    args.b = {b.data(), n, 1};
    args.c = {c.data(), n, 1};
  }
  size_t bytes() const { return ones.size() * sizeof(float); }
  void expect(float value) const {
    std::vector<float> got(ones.size());
    const std::vector<char> back = c.bytes();
    std::memcpy(got.data(), back.data(), back.size());
    EXPECT_THAT(got, ::testing::Each(value));
  }
  std::vector<float> ones;
  DeviceMemory a, b, c;
  MatmulArgs args;
};

TEST(GpuMatmulShapes, GraphsReplayProducts) {
  for (bool library : {false, true}) {
    BlasScope scope(library);
    const int64_t n = 48;
    SquareProduct product(n);
    product.args.beta = 1;
    const gpu::StreamRef before = gpu::current_stream(0);
    gpu::set_current_stream(gpu::stream_from_pool(0, 0));
    gpu::synchronize_device(0);
    {
      gpu::Graph graph;
      graph.begin();
      gpu::matmul(product.args, {"addmm", 0});
      graph.end();
      product.expect(1);
      graph.replay();
      graph.replay();
      gpu::synchronize(gpu::current_stream(0), "test");
    }
    gpu::set_current_stream(before);
    product.expect(1 + 2 * static_cast<float>(n));
  }
}

TEST(GpuMatmulShapes, TellsTypesThatItLacks) {
  MatmulArgs args;
  args.dtype = kComplexHalf;
  args.m = args.n = args.k = 1;
  EXPECT_THAT(error_of<DTypeError>([&] {
                gpu::matmul(args, {"bmm", 0});
              }),
              AllOf(StartsWith("bmm: "), HasSubstr("ComplexHalf"), HasSubstr(".to(dtype)")));
}

TEST(GpuMatmulShapes, BatchesAsLoops) {
  MatmulArgs args;
  args.batch = 24;
  std::vector<int64_t> a, b;
  for (int64_t i = 0; i < 24; ++i) {
    a.push_back(7 + i / 12 * 100 + i % 3 * 10);  // 2 x (4) x 3
    b.push_back(i / 3 % 4 * 5);                  // (2) x 4 x (3)
  }
  args.a.batch_offsets = a.data();
  args.b.batch_offsets = b.data();
  args.c.batch_stride = 6;
  gpu::BatchShape s;
  ASSERT_TRUE(gpu::batch_shape(args, s));
  EXPECT_EQ(s.count(), 24);
  EXPECT_EQ(s.a0, 7);
  EXPECT_THAT(s.sizes, ::testing::ElementsAre(1, 2, 4, 3));
  EXPECT_THAT(s.a, ::testing::ElementsAre(0, 100, 0, 10));
  EXPECT_THAT(s.b, ::testing::ElementsAre(0, 0, 5, 0));
  EXPECT_THAT(s.c, ::testing::ElementsAre(0, 72, 18, 6));
  a[23] += 1;
  EXPECT_FALSE(gpu::batch_shape(args, s));
}

TEST(GpuMatmulSettings, SwitchesAreThoseOfPyTorch) {
  EXPECT_FALSE(gpu::allow_tf32());
  EXPECT_EQ(gpu::float32_matmul_precision(), gpu::Float32Precision::Highest);
  gpu::set_float32_matmul_precision(gpu::Float32Precision::Medium);
  EXPECT_TRUE(gpu::allow_tf32());
  gpu::set_allow_tf32(false);
  EXPECT_EQ(gpu::float32_matmul_precision(), gpu::Float32Precision::Highest);
  gpu::set_allow_tf32(true);
  EXPECT_EQ(gpu::float32_matmul_precision(), gpu::Float32Precision::High);
  gpu::set_allow_tf32(false);
  EXPECT_TRUE(gpu::allow_fp16_reduced_precision_reduction());
  EXPECT_TRUE(gpu::allow_bf16_reduced_precision_reduction());
  EXPECT_FALSE(gpu::allow_fp16_accumulation());
}

// ---- the library ---------------------------------------------------------------------------------------------------

// FACULA_TEST_BLAS=1 says that a library must be there.
class GpuBlas : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* wanted = std::getenv("FACULA_TEST_BLAS");
    if (wanted && *wanted == '1') ASSERT_NE(gpu::blas(), nullptr) << gpu::why_no_blas();
    else if (!gpu::blas()) GTEST_SKIP() << "no library: " << gpu::why_no_blas();
    gpu::set_allow_small_products(false);
  }
  void TearDown() override {
    gpu::set_allow_small_products(true);
    if (control()) control()("clear");
  }
};

TEST_F(GpuBlas, SaysWhatItIs) {
  EXPECT_FALSE(gpu::blas()->name().empty());
  EXPECT_THAT(gpu::blas()->path(), StartsWith("/"));
  EXPECT_EQ(gpu::why_no_blas(), "");
}

TEST_F(GpuBlas, ThreadsShareIt) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Draw draw(static_cast<uint64_t>(100 + t % 2));  // two threads ask for the same products
      for (int i = 0; i < 6; ++i) compare<float>(draw, small_shape(draw), i % 3 == 0, 2);
      if (!::testing::Test::HasFatalFailure()) ++good;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
}

TEST_F(GpuBlas, ProductsReachItUnlessSwitchedOff) {
  const int before = library_calls();
  SquareProduct product(32);
  gpu::matmul(product.args, {"mm", 0});
  product.expect(32);
  EXPECT_EQ(library_calls(), control() ? before + 1 : 0);
  BlasScope scope(false);
  gpu::matmul(product.args, {"mm", 0});
  product.expect(32);
  EXPECT_EQ(library_calls(), control() ? before + 1 : 0);
}

TEST_F(GpuBlas, SmallProductsDoNotNeedIt) {
  gpu::set_allow_small_products(true);
  const int before = library_calls();
  SquareProduct small(32), large(128);
  gpu::matmul(small.args, {"mm", 0});
  EXPECT_EQ(library_calls(), before);
  small.expect(32);
  if (!control()) return;  // how many tiles are few depends on the chip
  gpu::matmul(large.args, {"mm", 0});
  EXPECT_EQ(library_calls(), before + 1);
  large.expect(128);
}

// Int8 is for libraries only where rows are whole groups of four bytes.
TEST_F(GpuBlas, WhatItCannotDoIsDoneHere) {
  Draw draw(8);
  for (int64_t k : {30, 31, 33}) compare<int8_t, int32_t>(draw, {1, 16, 16, k});
}

TEST_F(GpuBlas, CopiesOperandsForLargeProducts) {
  Draw draw(10);
  for (Layout layout : {Layout::EverySecond, Layout::RepeatedRow}) {
    const int before = library_calls();
    const int64_t n = 168;  // enough multiplications
    Matrices<float> a(draw, 1, n, n, layout, Batching::Strided), b(draw, 1, n, n, Layout::Rows, Batching::Strided);
    std::vector<float> c(static_cast<size_t>(n * n));
    DeviceMemory da(a.values.data(), a.bytes()), db(b.values.data(), b.bytes()), dc(c.data(), c.size() * 4);
    MatmulArgs args;
    args.dtype = kFloat;
    args.m = args.n = args.k = n;
    args.a = a.arg;
    args.b = b.arg;
    args.a.data = da.data();
    args.b.data = db.data();
    args.c = {dc.data(), n, 1};
    gpu::matmul(args, {"mm", 0});
    const std::vector<char> back = dc.bytes();
    std::memcpy(c.data(), back.data(), back.size());
    for (int64_t r = 0; r < n; r += 11)
      for (int64_t j = 0; j < n; ++j) {
        double want = 0;
        for (int64_t p = 0; p < n; ++p) want += static_cast<double>(a.at(0, r, p)) * b.at(0, p, j);
        ASSERT_NEAR(c[static_cast<size_t>(r * n + j)], want, 1e-3) << "row " << r << ", column " << j;
      }
    EXPECT_EQ(library_calls(), control() ? before + 1 : 0);
  }
}

TEST_F(GpuBlas, TimingTriesThemAllOnce) {
  const auto calls_of_a_product = [&] {
    const int before = library_calls();
    SquareProduct product(128);
    product.args.beta = 1;  // tries must not add up
    gpu::matmul(product.args, {"addmm", 0});
    product.expect(129);
    return library_calls() - before;
  };
  gpu::set_tune_blas(true);
  int most = 0, last = 0;
  for (int use = 0; use < 6; ++use) most = std::max(most, last = calls_of_a_product());
  gpu::set_tune_blas(false);
  if (!control() || gpu::blas()->name().starts_with("rocBLAS")) return;
  EXPECT_GT(most, 4);  // two ways, several times
  EXPECT_EQ(last, 1);
}

TEST_F(GpuBlas, FailuresNameTheLibrary) {
  if (!control()) GTEST_SKIP() << "a real GPU does not fail on request";
  SquareProduct product(40);
  control()("library:1=unknown");
  EXPECT_THAT(error_of<DeviceError>([&] {
                gpu::matmul(product.args, {"mm", 0});
              }),
              AllOf(StartsWith("mm: " + gpu::blas()->name() + " failed with "), HasSubstr("40x40"),
                    HasSubstr("FACULA_BLAS=none")));
  control()("clear");
  gpu::matmul(product.args, {"mm", 0});
  product.expect(40);
}

// Newer HIP has a light library for some chips; what that cannot do goes to the other one.
TEST_F(GpuBlas, NewerHipHasTwoLibraries) {
  if (gpu::driver()->vendor() != gpu::Vendor::Hip || !control()) GTEST_SKIP() << "not the software GPU's HIP";
  std::string why_not;
  const std::unique_ptr<gpu::Blas> both = gpu::find_blas_hip(60000000, why_not);
  ASSERT_NE(both, nullptr) << why_not;
  EXPECT_THAT(both->name(), AllOf(HasSubstr("hipBLASLt"), HasSubstr("rocBLAS")));
  gpu::enter(0);
  // The light one adds a bias and has no double.
  for (ScalarType dtype : {kFloat, kDouble}) {
    const int64_t n = 24;
    std::vector<char> ones(static_cast<size_t>(n * n) * elementSize(dtype));
    for (size_t i = 0; i < static_cast<size_t>(n * n); ++i) {
      if (dtype == kFloat) reinterpret_cast<float*>(ones.data())[i] = 1;
      else reinterpret_cast<double*>(ones.data())[i] = 1;
    }
    DeviceMemory a(ones), b(ones), d(ones), bias(ones);
    gpu::BlasProblem p;
    p.dtype = p.out_dtype = dtype;
    p.m = p.n = p.k = p.lda = p.ldb = p.ldd = n;
    p.a = a.data();
    p.b = b.data();
    p.d = d.data();
    if (dtype == kFloat) p.bias = bias.data();
    ASSERT_TRUE(both->matmul(p, gpu::current_stream(0), "mm"));
    const std::vector<char> back = d.bytes();
    const double got = dtype == kFloat ? static_cast<double>(reinterpret_cast<const float*>(back.data())[5])
                                       : reinterpret_cast<const double*>(back.data())[5];
    EXPECT_EQ(got, dtype == kFloat ? 25.0 : 24.0);
  }
}

}  // namespace
}  // namespace facula::testing
