// Creation ops: dtypes, counts, exact ends, memory formats and errors; tensors from values and from foreign memory.
#include <facula/facula.h>

#include "cpp/expect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace facula {
namespace {

using facula_test::expect_error;
using facula_test::sizes;
using facula_test::values;
using ::testing::ElementsAre;

TEST(Creation, FillsAndDtypes) {
  EXPECT_EQ(zeros({2}).scalar_type(), kFloat);
  EXPECT_EQ(full({2}, true).scalar_type(), kBool);
  EXPECT_EQ(full({2}, 3).scalar_type(), kLong);
  EXPECT_EQ(full({2}, 3.5).scalar_type(), kFloat);
  EXPECT_EQ(full({2}, complex<double>(1, 2)).scalar_type(), kComplexFloat);
  EXPECT_THAT(values(full({2}, 3.7, kInt)), ElementsAre(3, 3));
  EXPECT_THAT(values(ones({2}, kHalf)), ElementsAre(1, 1));
  EXPECT_THAT(values(full({2}, -1, kByte)), ElementsAre(255, 255));
  EXPECT_TRUE(std::signbit(values(full({1}, -0.0))[0]));
  EXPECT_TRUE(std::isinf(values(full({1}, std::numeric_limits<double>::infinity()))[0]));
  expect_error<ValueError>([] { full({1}, 300, kByte); },
                           "full: value 300 cannot be converted to type Byte without overflow");
  expect_error<ValueError>([] { full({1}, 1e40, kFloat); }, "without overflow");
  expect_error<ValueError>([] { full({1}, std::nan(""), kInt); }, "without overflow");
  expect_error<ValueError>([] { full({1}, complex<double>(1, 1), kFloat); }, "without overflow");
  expect_error<ShapeError>([] { tril_indices(int64_t{1} << 62, 3); }, "overflows 64 bits");
  expect_error<ShapeError>([] { triu_indices(3, int64_t{1} << 62); }, "overflows 64 bits");
  expect_error<ShapeError>([] { zeros({2, -1}); }, "zeros: Trying to create tensor with negative dimension -1");
  expect_error<ShapeError>([] { empty({INT64_MAX, 8}); }, "overflows 64 bits");
  expect_error<DeviceError>([] { zeros({2}, kCUDA); }, "not available");
  Tensor big = zeros({3000, 1000});
  EXPECT_EQ(big.count_nonzero().item<int64_t>(), 0);
  EXPECT_THAT(values(scalar_tensor(3)), ElementsAre(3));
  EXPECT_EQ(scalar_tensor(3).scalar_type(), kFloat);
  EXPECT_TRUE(zeros({2, 3}, kMeta).is_meta());
}

TEST(Creation, Like) {
  Tensor x = zeros({2, 3, 4, 5}).contiguous(MemoryFormat::ChannelsLast);
  EXPECT_TRUE(empty_like(x).is_contiguous(MemoryFormat::ChannelsLast));
  EXPECT_TRUE(ones_like(x, kInt).is_contiguous(MemoryFormat::ChannelsLast));
  EXPECT_EQ(ones_like(x, kInt).sum().item<int64_t>(), 120);
  EXPECT_TRUE(zeros_like(x, {}, MemoryFormat::Contiguous).is_contiguous());
  EXPECT_EQ(full_like(x, 2).scalar_type(), kFloat);
  EXPECT_TRUE(empty({2, 3, 4, 5}, {}, MemoryFormat::ChannelsLast).is_contiguous(MemoryFormat::ChannelsLast));
  expect_error<ShapeError>([] { empty({2, 3}, {}, MemoryFormat::ChannelsLast); }, "4 dimensions");
  EXPECT_EQ(x.new_ones({2}, kLong).scalar_type(), kLong);
  EXPECT_THAT(values(x.new_full({2}, 1.5)), ElementsAre(1.5, 1.5));
  EXPECT_THAT(sizes(x.new_empty({7})), ElementsAre(7));
  EXPECT_THAT(values(x.new_zeros({1})), ElementsAre(0));
  Tensor strided = empty_strided({2, 3}, {1, 2});
  EXPECT_THAT(strided.strides().vec(), ElementsAre(1, 2));
  expect_error<ValueError>([] { empty_strided({2}, {-1}); }, "Negative strides");
  expect_error<ShapeError>([] { empty_strided({2}, {1, 1}); }, "must match dimensionality of strides");
}

TEST(Creation, Arange) {
  EXPECT_EQ(arange(3).scalar_type(), kLong);
  EXPECT_EQ(arange(3.0).scalar_type(), kFloat);
  EXPECT_THAT(values(arange(1, 6, 2)), ElementsAre(1, 3, 5));
  EXPECT_THAT(values(arange(5, 0, -2)), ElementsAre(5, 3, 1));
  EXPECT_EQ(arange(0, 1, 0.1, kDouble).numel(), 10);
  EXPECT_EQ(arange(1, 1.3, 0.1, kDouble).numel(), 4);  // 0.3 / 0.1 is a little more than 3
  EXPECT_EQ(arange(2, 2).numel(), 0);
  EXPECT_THAT(values(arange(0, 1000, 100, kByte)), ElementsAre(0, 100, 200, 44, 144, 244, 88, 188, 32, 132));
  EXPECT_EQ(arange(INT64_MAX - 1, INT64_MAX)[0].item<int64_t>(), INT64_MAX - 1);
  Tensor large = arange(0, 300000, 3);
  EXPECT_EQ(large[99999].item<int64_t>(), 299997);
  Tensor floats = arange(100000.0f);
  for (int64_t k : {0, 511, 512, 513, 99999}) EXPECT_EQ(floats[k].item<float>(), static_cast<float>(k));
  EXPECT_EQ(arange(0, 10, kHalf)[9].item<float>(), 9);
  expect_error<ValueError>([] { arange(0, 5, 0); }, "arange: step must be nonzero");
  expect_error<ValueError>([] { arange(0, 5, -1); }, "upper bound and larger bound inconsistent with step sign");
  expect_error<ValueError>([] { arange(0.0, std::nan("")); }, "NaN size argument");
  expect_error<ValueError>([] { arange(0.0, std::numeric_limits<double>::infinity()); }, "unsupported range: ");
  expect_error<ShapeError>([] { arange(0, 1e30, 1e-3); }, "invalid size, possible overflow?");
  expect_error<DTypeError>([] { arange(0, 5, 1, kBool); }, "not supported");
  Tensor out = empty({0}, kInt);
  arange_out(out, 4);
  EXPECT_THAT(values(out), ElementsAre(0, 1, 2, 3));
}

TEST(Creation, LinspaceAndLogspace) {
  EXPECT_THAT(values(linspace(0, 1, 5)), ElementsAre(0, 0.25, 0.5, 0.75, 1));
  EXPECT_THAT(values(linspace(3, 9, 1)), ElementsAre(3));
  EXPECT_EQ(linspace(0, 1, 0).numel(), 0);
  EXPECT_THAT(values(linspace(0, 10, 5, kInt)), ElementsAre(0, 2, 5, 7, 10));
  Tensor t = linspace(-1, 1, 100001, kDouble);
  for (int64_t k : {0, 1, 777, 50000}) EXPECT_EQ(t[k].item<double>(), -t[100000 - k].item<double>());
  EXPECT_EQ(linspace(0.1, 0.7, 1234, kDouble)[1233].item<double>(), 0.7);
  EXPECT_THAT(values(logspace(0, 3, 4)), ElementsAre(1, 10, 100, 1000));
  EXPECT_THAT(values(logspace(-1, 2, 4, 2.0, kDouble)), ElementsAre(0.5, 1, 2, 4));
  EXPECT_EQ(linspace(0, complex<double>(2, 4), 3, kComplexDouble)[1].item<complex<double>>(), complex<double>(1, 2));
  EXPECT_EQ(linspace(0, complex<double>(2, 4), 3).scalar_type(), kComplexFloat);
  expect_error<ValueError>([] { linspace(0, 1, -1); }, "number of steps must be non-negative");
}

TEST(Creation, EyeAndIndices) {
  EXPECT_THAT(values(eye(2, 3)), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_THAT(values(eye(2, kInt)), ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(eye(0).numel(), 0);
  expect_error<ValueError>([] { eye(-1); }, "n must be greater or equal to 0");
  EXPECT_THAT(values(tril_indices(3, 3)), ElementsAre(0, 1, 1, 2, 2, 2, 0, 0, 1, 0, 1, 2));
  EXPECT_THAT(values(triu_indices(2, 3, 1)), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(values(tril_indices(2, 2, -1, kInt)), ElementsAre(1, 0));
  EXPECT_EQ(tril_indices(2, 2, -1, kInt).scalar_type(), kInt);
  expect_error<ValueError>([] { tril_indices(-1, 2); }, "row must be non-negative");
  EXPECT_THAT(sizes(triu_indices(0, 2)), ElementsAre(2, 0));
}

TEST(Creation, IndicesOfTrianglesOfAnySize) {
  for (int64_t row = 0; row < 5; ++row)
    for (int64_t col = 0; col < 5; ++col)
      for (int64_t offset = -7; offset <= 7; ++offset) {
        SCOPED_TRACE(str(row, " by ", col, ", offset ", offset));
        std::vector<double> lower[2], upper[2];
        for (int64_t r = 0; r < row; ++r)
          for (int64_t c = 0; c < col; ++c) {
            if (c <= r + offset) lower[0].push_back(double(r)), lower[1].push_back(double(c));
            if (c >= r + offset) upper[0].push_back(double(r)), upper[1].push_back(double(c));
          }
        for (int64_t k = 0; k < 2; ++k) {
          EXPECT_EQ(values(tril_indices(row, col, offset).select(0, k)), lower[k]);
          EXPECT_EQ(values(triu_indices(row, col, offset).select(0, k)), upper[k]);
        }
      }
  // Few places of a matrix that is larger than any memory: no walk over its rows.
  const int64_t huge = int64_t{1} << 62;
  EXPECT_EQ(values(triu_indices(huge, 2)), (std::vector<double>{0, 0, 1, 0, 1, 1}));
  EXPECT_EQ(tril_indices(huge, 1, 3 - huge)[0][0].item<int64_t>(), huge - 3);
  EXPECT_EQ(sizes(tril_indices(3, 3, std::numeric_limits<int64_t>::max())), (std::vector<int64_t>{2, 9}));
  EXPECT_EQ(sizes(triu_indices(3, 3, std::numeric_limits<int64_t>::min())), (std::vector<int64_t>{2, 9}));
}

TEST(Creation, MeshgridAndOneHot) {
  auto ij = meshgrid({arange(2), arange(3)});
  EXPECT_THAT(values(ij[0]), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(values(ij[1]), ElementsAre(0, 1, 2, 0, 1, 2));
  auto xy = meshgrid({arange(2), arange(3)}, "xy");
  EXPECT_THAT(sizes(xy[0]), ElementsAre(3, 2));
  EXPECT_THAT(values(xy[0]), ElementsAre(0, 1, 0, 1, 0, 1));
  expect_error<ValueError>([] { meshgrid({arange(2)}, "yx"); }, "indexing must be one of");
  expect_error<DTypeError>([] { meshgrid({arange(2), arange(2.0)}); }, "same dtype");
  EXPECT_THAT(values(one_hot(tensor({1, 0}))), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(sizes(one_hot(tensor({1, 0}), 5)), ElementsAre(2, 5));
  expect_error<ValueError>([] { one_hot(tensor({1, -1})); }, "Class values must be non-negative");
  expect_error<ValueError>([] { one_hot(tensor({1, 3}), 3); }, "smaller than num_classes");
  expect_error<DTypeError>([] { one_hot(tensor({1.0})); }, "only applicable to index tensor");
}

TEST(FromData, Tensor) {
  EXPECT_EQ(tensor({1, 2, 3}).scalar_type(), kLong);
  EXPECT_EQ(tensor({1.5, 2.5}).scalar_type(), kFloat);
  EXPECT_EQ(tensor({true, false}).scalar_type(), kBool);
  EXPECT_THAT(sizes(tensor({{1, 2, 3}, {4, 5, 6}})), ElementsAre(2, 3));
  EXPECT_THAT(values(tensor({{1, 2}, {3, 4}})), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(sizes(tensor(5)), ElementsAre());
  EXPECT_EQ(tensor({1, 2}, kHalf).scalar_type(), kHalf);
  EXPECT_EQ(tensor(0.1, kDouble).item<double>(), 0.1);
  EXPECT_THAT(values(tensor(std::vector<float>{1, 2, 3})), ElementsAre(1, 2, 3));
  EXPECT_EQ(tensor(std::vector<uint8_t>{1, 2}).scalar_type(), kByte);
  EXPECT_THAT(values(tensor(std::vector<bool>{true, false})), ElementsAre(1, 0));
  EXPECT_THAT(sizes(tensor(std::vector<float>())), ElementsAre(0));
  EXPECT_EQ(tensor(complex<double>(1, 2)).item<complex<double>>(), complex<double>(1, 2));
  expect_error<ShapeError>([] { tensor({{1, 2}, {3}}); }, "Expected all sub-lists to have sizes: [2]");
  expect_error<DTypeError>(
      [] {
        tensor({{1, 2}, {3.0, 4.0}});
      },
      "same scalar type: Int, but got element of scalar type: Double");
}

TEST(FromData, FromBlob) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  Tensor x = from_blob(data, {2, 3});
  EXPECT_EQ(x.data_ptr(), data);
  EXPECT_THAT(values(from_blob(data, {3, 2}, {1, 3})), ElementsAre(0, 3, 1, 4, 2, 5));
  x.fill_(7);
  EXPECT_EQ(data[5], 7);
  int calls = 0;
  void* seen = nullptr;
  auto deleter = [&](void* p) { ++calls, seen = p; };
  {
    Tensor y = from_blob(data, {6}, deleter);
    Tensor view = y[2];
    y = Tensor();
    EXPECT_EQ(calls, 0);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, data);
  { from_blob(data, {3}, {2}, deleter, kFloat); }
  EXPECT_EQ(calls, 2);
  expect_error<ShapeError>([&] { from_blob(data, {-1}, deleter); },
                           "from_blob: Trying to create tensor with negative dimension");
  EXPECT_EQ(calls, 3);
  expect_error<ValueError>([&] { from_blob(data, {2}, {-1}, deleter); }, "Negative strides");
  EXPECT_EQ(calls, 4);
  expect_error<ShapeError>([&] { from_blob(data, {2}, {1, 1}, deleter); }, "differ in length");
  expect_error<DeviceError>([&] { from_blob(data, {2}, deleter, kMeta); }, "has no memory");
  expect_error<ValueError>([&] { from_blob(nullptr, {2}, deleter); }, "data pointer is null");
  EXPECT_EQ(calls, 7);
  EXPECT_EQ(from_blob(nullptr, {0}).numel(), 0);
}

}  // namespace
}  // namespace facula
