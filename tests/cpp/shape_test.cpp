// Views, joins, rearrangements, padding and copies against values worked out by hand.
#include <facula/facula.h>

#include "core/tensor_impl.h"
#include "cpp/expect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace facula {
namespace {

using facula_test::expect_error;
using facula_test::sizes;
using facula_test::strides;
using facula_test::values;
using ::testing::ElementsAre;

Tensor count(std::vector<int64_t> sizes, ScalarType dtype = kLong) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return arange(n, dtype).reshape(sizes);
}

TEST(Shape, ViewSharesStorageOrRefuses) {
  Tensor x = count({2, 6});
  Tensor v = x.view({3, -1});
  EXPECT_TRUE(v.is_alias_of(x));
  EXPECT_THAT(sizes(v), ElementsAre(3, 4));
  EXPECT_THAT(sizes(x.view({2, 2, 3})), ElementsAre(2, 2, 3));
  EXPECT_THAT(sizes(x.t().view({2, 3, 2})), ElementsAre(2, 3, 2));
  expect_error<ShapeError>([&] { x.t().view({12}); },
                           "view size is not compatible with input tensor's size and stride");
  expect_error<ShapeError>([&] { x.view({5, -1}); }, "view: shape '[5, -1]' is invalid for input of size 12");
  expect_error<ShapeError>([&] { x.view({-1, -1}); }, "only one dimension can be inferred");
  EXPECT_THAT(values(x.t().reshape({12})), ElementsAre(0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11));
  EXPECT_FALSE(x.t().reshape({12}).is_alias_of(x));
  EXPECT_TRUE(x.reshape({4, 3}).is_alias_of(x));
  EXPECT_THAT(sizes(zeros({0, 3}).reshape({3, 0})), ElementsAre(3, 0));
  expect_error<ValueError>([] { Tensor().reshape({1}); }, "reshape: this tensor is undefined");
}

TEST(Shape, ViewAsAnotherDtype) {
  Tensor x = tensor({1.0f, 2.0f}).to(kFloat);
  EXPECT_EQ(x.view(kInt)[0].item<int>(), 0x3f800000);
  Tensor bytes = x.view(kByte);
  EXPECT_THAT(sizes(bytes), ElementsAre(8));
  EXPECT_TRUE(bytes.is_alias_of(x));
  EXPECT_THAT(values(bytes.view(kFloat)), ElementsAre(1, 2));
  EXPECT_THAT(sizes(bytes.view(kDouble)), ElementsAre(1));
  expect_error<ShapeError>([&] { bytes.slice(0, 0, 6).view(kFloat); }, "self.size(-1) must be divisible by 4");
  expect_error<ShapeError>([&] { bytes.slice(0, 1, 5).view(kFloat); }, "self.storage_offset() must be divisible by 4");
  expect_error<ShapeError>([&] { scalar_tensor(1.0).view(kByte); }, "self.dim() cannot be 0");
}

TEST(Shape, ComplexViews) {
  Tensor z = view_as_complex(count({2, 3, 2}, kFloat));
  EXPECT_EQ(z.scalar_type(), kComplexFloat);
  EXPECT_THAT(sizes(z), ElementsAre(2, 3));
  EXPECT_EQ(z[1][2].item<complex<double>>(), complex<double>(10, 11));
  EXPECT_THAT(sizes(view_as_real(z)), ElementsAre(2, 3, 2));
  EXPECT_THAT(strides(view_as_real(z.t())), ElementsAre(2, 6, 1));
  expect_error<DTypeError>([] { view_as_complex(count({2})); }, "only supported for half, float and double");
  expect_error<DTypeError>([] { view_as_real(count({2})); }, "only supported for complex");
  expect_error<ShapeError>([] { view_as_complex(count({3}, kFloat)); }, "last dimension of size 2");
}

TEST(Shape, Expand) {
  Tensor x = count({3, 1});
  Tensor e = x.expand({2, -1, 4});
  EXPECT_THAT(sizes(e), ElementsAre(2, 3, 4));
  EXPECT_THAT(strides(e), ElementsAre(0, 1, 0));
  EXPECT_THAT(values(x.expand({3, 2})), ElementsAre(0, 0, 1, 1, 2, 2));
  expect_error<ShapeError>(
      [&] {
        x.expand({4, 4});
      },
      "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 0");
  expect_error<ShapeError>([&] { x.expand({3}); }, "the number of sizes provided (1)");
  expect_error<ShapeError>([&] { x.expand({-1, 3, 1}); }, "leading, non-existing dimension 0");
  EXPECT_THAT(sizes(x.expand_as(zeros({5, 3, 2}))), ElementsAre(5, 3, 2));
  auto parts = broadcast_tensors({count({3, 1}), count({1, 2})});
  EXPECT_THAT(values(parts[1]), ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST(Shape, DimsInOtherOrder) {
  Tensor x = count({2, 3, 4});
  EXPECT_THAT(sizes(x.permute({2, 0, -2})), ElementsAre(4, 2, 3));
  EXPECT_THAT(strides(x.permute({2, 0, 1})), ElementsAre(1, 12, 4));
  expect_error<ShapeError>([&] { x.permute({0, 1}); }, "permute: number of dimensions");
  expect_error<ValueError>([&] { x.permute({0, 1, 1}); }, "appears multiple times");
  expect_error<IndexError>(
      [&] {
        x.permute({0, 1, 3});
      },
      "Dimension out of range (expected to be in range of [-3, 2], but got 3)");
  EXPECT_THAT(sizes(x.movedim(0, -1)), ElementsAre(3, 4, 2));
  EXPECT_THAT(sizes(x.movedim({0, 2}, {2, 0})), ElementsAre(4, 3, 2));
  EXPECT_THAT(sizes(x.numpy_T()), ElementsAre(4, 3, 2));
  EXPECT_THAT(sizes(x.mT()), ElementsAre(2, 4, 3));
  expect_error<ShapeError>([&] { x.t(); }, "t() expects a tensor with <= 2 dimensions, but self is 3D");
  Tensor y = count({2, 3});
  y.t_();
  EXPECT_THAT(values(y), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(sizes(zeros({1, 2, 1}).squeeze()), ElementsAre(2));
  EXPECT_THAT(sizes(zeros({1, 2, 1}).squeeze(-1)), ElementsAre(1, 2));
  EXPECT_THAT(sizes(zeros({1, 2, 1}).squeeze(1)), ElementsAre(1, 2, 1));
  EXPECT_THAT(sizes(squeeze(zeros({1, 2, 1, 1}), IntArrayRef({0, 1, 3}))), ElementsAre(2, 1));
  EXPECT_THAT(sizes(zeros({2}).unsqueeze(-1)), ElementsAre(2, 1));
  expect_error<IndexError>([] { zeros({2}).unsqueeze(2); }, "range of [-2, 1], but got 2");
}

TEST(Shape, SlicesAndDiagonals) {
  Tensor x = count({3, 4});
  EXPECT_THAT(values(x.select(1, -1)), ElementsAre(3, 7, 11));
  expect_error<IndexError>([&] { x.select(0, 3); }, "index 3 out of range for tensor of size [3, 4] at dimension 0");
  EXPECT_THAT(values(x.narrow(1, 1, 2)), ElementsAre(1, 2, 5, 6, 9, 10));
  EXPECT_THAT(values(x.narrow(0, -1, 1)), ElementsAre(8, 9, 10, 11));
  expect_error<IndexError>([&] { x.narrow(1, 3, 2); }, "start (3) + length (2) exceeds dimension size (4)");
  EXPECT_THAT(values(x.slice(1, 0, std::nullopt, 3)), ElementsAre(0, 3, 4, 7, 8, 11));
  EXPECT_THAT(values(x[0].slice(0, -3, -1)), ElementsAre(1, 2));
  EXPECT_EQ(x.slice(0, 2, 1).numel(), 0);
  EXPECT_EQ(x.slice(0, 5, 100).size(0), 0);
  EXPECT_THAT(sizes(x.slice(1, 0, INT64_MAX, INT64_MAX)), ElementsAre(3, 1));
  expect_error<ValueError>([&] { x.slice(0, 0, 3, 0); }, "slice step must be positive");
  EXPECT_THAT(values(x.diagonal()), ElementsAre(0, 5, 10));
  EXPECT_THAT(values(x.diagonal(1)), ElementsAre(1, 6, 11));
  EXPECT_THAT(values(x.diagonal(-2)), ElementsAre(8));
  EXPECT_EQ(x.diagonal(INT64_MAX).numel(), 0);
  EXPECT_EQ(x.diagonal(INT64_MIN).numel(), 0);
  expect_error<ValueError>([&] { x.diagonal(0, 1, 1); }, "diagonal dimensions cannot be identical 1, 1");
  EXPECT_THAT(values(count({5}).unfold(0, 3, 2)), ElementsAre(0, 1, 2, 2, 3, 4));
  expect_error<ValueError>([] { count({5}).unfold(0, 6, 1); },
                           "maximum size for tensor at dimension 0 is 5 but size is 6");
  EXPECT_THAT(sizes(scalar_tensor(1).unfold(0, 1, 1)), ElementsAre(1));
}

TEST(Shape, Flatten) {
  Tensor x = count({2, 3, 4});
  EXPECT_THAT(sizes(x.flatten(1)), ElementsAre(2, 12));
  EXPECT_THAT(sizes(x.flatten()), ElementsAre(24));
  EXPECT_THAT(sizes(scalar_tensor(1).flatten()), ElementsAre(1));
  expect_error<ValueError>([&] { x.flatten(2, 1); }, "start_dim cannot come after end_dim");
  EXPECT_THAT(sizes(x.unflatten(-1, {2, -1})), ElementsAre(2, 3, 2, 2));
  expect_error<ShapeError>([&] { x.unflatten(1, {2, 2}); }, "don't multiply up to the size of dim 1 (3)");
  EXPECT_THAT(values(count({2, 2}).t().ravel()), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(values(count({2, 4}).t().unflatten(0, {2, 2}).select(0, 1)), ElementsAre(2, 6, 3, 7));
}

TEST(Shape, AsStridedStaysInsideTheStorage) {
  Tensor x = count({6});
  EXPECT_THAT(values(x.as_strided({2, 3}, {1, 2})), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(values(x.as_strided({2}, {2}, 3)), ElementsAre(3, 5));
  expect_error<IndexError>([&] { x.as_strided({2, 3}, {3, 2}); }, "are out of bounds for storage of size 48");
  expect_error<IndexError>([&] { x.as_strided({1}, {1}, 6); }, "storage offset 6");
  expect_error<IndexError>([&] { x.as_strided({4, 4}, {INT64_MAX / 2, 1}); }, "beyond 64 bits");
  expect_error<ValueError>([&] { x.as_strided({2}, {-1}); }, "Negative strides are not supported");
  expect_error<ShapeError>([&] { x.as_strided({2}, {1, 1}); }, "mismatch in length of strides and shape");
  expect_error<ValueError>([&] { x.as_strided({2}, {1}, -1); }, "invalid storage offset -1");
}

TEST(Shape, TakingApart) {
  Tensor x = count({5, 2});
  auto parts = x.chunk(3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_THAT(values(parts[2]), ElementsAre(8, 9));
  EXPECT_EQ(x.chunk(4).size(), 3u);
  EXPECT_EQ(zeros({0, 2}).chunk(3).size(), 3u);
  EXPECT_EQ(x.split(2).size(), 3u);
  EXPECT_THAT(values(x.split(IntArrayRef({1, 4}), 0)[0]), ElementsAre(0, 1));
  expect_error<ValueError>(
      [&] {
        x.split(IntArrayRef({1, 3}), 0);
      },
      "to sum exactly to 5 (input tensor's size at dimension 0)");
  expect_error<ValueError>([&] { x.split(0); }, "split_size can only be 0 if dimension size is 0");
  expect_error<ValueError>([&] { x.chunk(0); }, "`chunks` to be greater than 0");
  auto sections = x.tensor_split(3);
  EXPECT_EQ(sections[0].size(0), 2);
  EXPECT_EQ(sections[2].size(0), 1);
  auto at = x.tensor_split(IntArrayRef({1, -1}));
  EXPECT_EQ(at[1].size(0), 3);
  EXPECT_EQ(x.tensor_split(tensor({1, 4}))[2].size(0), 1);
  EXPECT_EQ(x.tensor_split(scalar_tensor(2, kLong)).size(), 2u);
  EXPECT_THAT(values(x.unbind(1)[1]), ElementsAre(1, 3, 5, 7, 9));
  EXPECT_TRUE(x.unbind(1)[1].is_alias_of(x));
  expect_error<IndexError>([] { scalar_tensor(1).unbind(); }, "no dimensions");
}

TEST(Shape, AtLeast) {
  EXPECT_THAT(sizes(atleast_2d(count({3}))), ElementsAre(1, 3));
  EXPECT_THAT(sizes(atleast_3d(count({3}))), ElementsAre(1, 3, 1));
  EXPECT_THAT(sizes(atleast_3d(count({3, 2}))), ElementsAre(3, 2, 1));
  EXPECT_THAT(sizes(atleast_1d(scalar_tensor(1))), ElementsAre(1));
}

TEST(Join, Cat) {
  Tensor a = count({2, 2}), b = count({2, 1}) + 10;
  EXPECT_THAT(values(cat({a, b}, 1)), ElementsAre(0, 1, 10, 2, 3, 11));
  EXPECT_THAT(values(cat({a, a}, -2)), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(cat({a, b.to(kFloat)}, 1).scalar_type(), kFloat);
  EXPECT_THAT(values(cat({a, b.to(kFloat)}, 1)), ElementsAre(0, 1, 10, 2, 3, 11));
  EXPECT_THAT(values(cat({a.t(), b}, 1)), ElementsAre(0, 2, 10, 1, 3, 11));
  EXPECT_THAT(sizes(cat({zeros({0}), zeros({2, 3})}, 1)), ElementsAre(2, 3));
  EXPECT_THAT(sizes(cat({zeros({0}), zeros({0})})), ElementsAre(0));
  EXPECT_EQ(cat({a.to(kMeta), a.to(kMeta)}).size(0), 4);
  Tensor out = empty({0}, kLong);
  cat_out(out, {a, a}, 0);
  EXPECT_THAT(sizes(out), ElementsAre(4, 2));
  expect_error<ShapeError>(
      [&] {
        cat({a, count({3, 3})});
      },
      "Sizes of tensors must match except in dimension 0. Expected size 2 but got size 3 for tensor number 1");
  expect_error<ShapeError>(
      [&] {
        cat({a, count({2, 2, 2})});
      },
      "Tensors must have same number of dimensions: got 2 and 3");
  expect_error<ShapeError>(
      [&] {
        cat({scalar_tensor(1), scalar_tensor(2)});
      },
      "zero-dimensional tensor (at position 0) cannot be concatenated");
  expect_error<ValueError>([] { cat(TensorList()); }, "expected a non-empty list of Tensors");
  expect_error<DeviceError>([&] { cat({a, a.to(kMeta)}); }, "same device");
}

TEST(Join, CatManyAndLarge) {
  for (int64_t width : {1, 3, 70, 1000}) {
    for (int64_t rows : {1, 5, 400}) {
      std::vector<Tensor> list;
      for (int k = 0; k < 20; ++k) list.push_back(count({rows, width + k % 3}, kInt) + k * 7);
      Tensor joined = cat(list, 1);
      int64_t start = 0;
      for (const Tensor& t : list) {
        ASSERT_TRUE(joined.narrow(1, start, t.size(1)).equal(t)) << width << " " << rows;
        start += t.size(1);
      }
      EXPECT_EQ(start, joined.size(1));
    }
  }
}

TEST(Join, CatKeepsChannelsLast) {
  Tensor a = count({2, 3, 4, 5}, kFloat), b = a + 1000;
  Tensor joined = cat({a.contiguous(MemoryFormat::ChannelsLast), b.contiguous(MemoryFormat::ChannelsLast)}, 1);
  EXPECT_TRUE(joined.is_contiguous(MemoryFormat::ChannelsLast));
  EXPECT_FALSE(joined.is_contiguous());
  EXPECT_TRUE(joined.equal(cat({a, b}, 1)));
  for (int64_t dim : {0, 2, 3}) {
    Tensor last = cat({a.contiguous(MemoryFormat::ChannelsLast), b.contiguous(MemoryFormat::ChannelsLast)}, dim);
    EXPECT_TRUE(last.equal(cat({a, b}, dim))) << dim;
  }
  EXPECT_TRUE(cat({a, b.contiguous(MemoryFormat::ChannelsLast)}, 1).is_contiguous());
}

TEST(Join, Stack) {
  Tensor a = count({2, 3}), b = a + 10;
  EXPECT_THAT(sizes(stack({a, b}, 1)), ElementsAre(2, 2, 3));
  EXPECT_THAT(values(stack({a, b}, 2)), ElementsAre(0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15));
  EXPECT_THAT(values(stack({a.t(), b.t()}, 0).select(0, 1)), ElementsAre(10, 13, 11, 14, 12, 15));
  EXPECT_THAT(values(stack({scalar_tensor(1), scalar_tensor(2)})), ElementsAre(1, 2));
  expect_error<ShapeError>(
      [&] {
        stack({a, a.t()});
      },
      "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [3, 2] at entry 1");
  EXPECT_THAT(values(hstack({count({2}), count({1})})), ElementsAre(0, 1, 0));
  EXPECT_THAT(sizes(vstack({count({2}), count({2})})), ElementsAre(2, 2));
  EXPECT_THAT(sizes(dstack({count({2}), count({2})})), ElementsAre(1, 2, 2));
  EXPECT_THAT(sizes(hstack({a, b})), ElementsAre(2, 6));
}

TEST(Rearrange, FlipAndRoll) {
  Tensor x = count({2, 3});
  EXPECT_THAT(values(x.flip({0})), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(values(x.flip({0, 1})), ElementsAre(5, 4, 3, 2, 1, 0));
  EXPECT_THAT(values(x.t().flip({1})), ElementsAre(3, 0, 4, 1, 5, 2));
  EXPECT_THAT(values(fliplr(x)), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(values(flipud(x)), ElementsAre(3, 4, 5, 0, 1, 2));
  expect_error<ValueError>([&] { x.flip({0, 0}); }, "appears multiple times");
  EXPECT_THAT(values(x.roll(1)), ElementsAre(5, 0, 1, 2, 3, 4));
  EXPECT_THAT(values(x.roll(-1, 1)), ElementsAre(1, 2, 0, 4, 5, 3));
  EXPECT_THAT(values(x.roll({1, 1}, {0, 1})), ElementsAre(5, 3, 4, 2, 0, 1));
  EXPECT_THAT(values(x.roll({1, 2}, {1, 1})), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values(x.roll(7, 1)), ElementsAre(2, 0, 1, 5, 3, 4));
  expect_error<ValueError>([&] { x.roll({1, 2}, {0}); }, "shifts and dimensions must align");
  EXPECT_EQ(zeros({0, 2}).roll(1, 0).numel(), 0);
  Tensor six = count({2, 2, 2, 2, 2, 2});
  Tensor rolled = six.roll({1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(rolled.equal(six.flip({0, 1, 2, 3, 4, 5})));
  EXPECT_THAT(values(rot90(x)), ElementsAre(2, 5, 1, 4, 0, 3));
  EXPECT_THAT(values(rot90(x, 2)), ElementsAre(5, 4, 3, 2, 1, 0));
  EXPECT_THAT(values(rot90(x, -1)), ElementsAre(3, 0, 4, 1, 5, 2));
  expect_error<ValueError>([&] { rot90(x, 1, {0}); }, "expected total rotation dims == 2");
}

TEST(Rearrange, Repeat) {
  Tensor x = count({2, 2});
  EXPECT_THAT(values(x.repeat({1, 2})), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(sizes(x.repeat({3, 2, 1})), ElementsAre(3, 4, 2));
  EXPECT_THAT(values(x.t().repeat({2, 1})), ElementsAre(0, 2, 1, 3, 0, 2, 1, 3));
  EXPECT_EQ(x.repeat({0, 1}).numel(), 0);
  expect_error<ShapeError>([&] { x.repeat({2}); }, "can not be smaller than number of dimensions of tensor");
  expect_error<ShapeError>([&] { x.repeat({2, -1}); }, "negative dimension");
  EXPECT_THAT(values(count({2}).tile({2})), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(sizes(x.tile({2})), ElementsAre(2, 4));
  EXPECT_THAT(values(x.repeat_interleave(2)), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(values(x.repeat_interleave(2, 0)), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(values(x.repeat_interleave(tensor({1, 2}), 1)), ElementsAre(0, 1, 1, 2, 3, 3));
  EXPECT_THAT(values(x.repeat_interleave(tensor({0, 2}), 0)), ElementsAre(2, 3, 2, 3));
  EXPECT_THAT(values(repeat_interleave(tensor({1, 0, 3}))), ElementsAre(0, 2, 2, 2));
  EXPECT_THAT(values(count({2}, kByte).repeat_interleave(20).slice(0, 18, 22)), ElementsAre(0, 0, 1, 1));
  expect_error<ValueError>([&] { x.repeat_interleave(tensor({1, -2}), 1); }, "repeats can not be negative");
  expect_error<ShapeError>([&] { x.repeat_interleave(tensor({1, 2, 3}), 1); }, "same size as input along dim");
  expect_error<ValueError>([&] { x.repeat_interleave(tensor({1, 2}), 1, 5); }, "does not match required size");
}

TEST(Rearrange, TrianglesAndDiagonals) {
  Tensor x = count({3, 3}) + 1;
  EXPECT_THAT(values(x.tril()), ElementsAre(1, 0, 0, 4, 5, 0, 7, 8, 9));
  EXPECT_THAT(values(x.triu(1)), ElementsAre(0, 2, 3, 0, 0, 6, 0, 0, 0));
  EXPECT_THAT(values(x.t().tril(-1)), ElementsAre(0, 0, 0, 2, 0, 0, 3, 6, 0));
  EXPECT_TRUE(x.triu(INT64_MIN).equal(x));
  EXPECT_TRUE(x.tril(INT64_MAX).equal(x));
  Tensor batch = count({2, 3, 2, 4}).permute({1, 0, 2, 3});
  for (int64_t k = 0; k < 3; ++k) EXPECT_TRUE(batch.triu()[k][1].equal(batch[k][1].triu()));
  Tensor y = x.clone();
  y.tril_();
  EXPECT_TRUE(y.equal(x.tril()));
  expect_error<ShapeError>([] { count({3}).tril(); }, "at least 2 dimensions");
  EXPECT_THAT(values(diag(count({2}) + 1, 1)), ElementsAre(0, 1, 0, 0, 0, 2, 0, 0, 0));
  EXPECT_THAT(values(diag(x)), ElementsAre(1, 5, 9));
  EXPECT_FALSE(diag(x).is_alias_of(x));
  expect_error<ShapeError>([] { diag(count({1, 1, 1})); }, "Supports 1D or 2D tensors. Got 3D");
  EXPECT_THAT(values(diag_embed(count({2, 2}), -1, 0, 2).select(1, 1)), ElementsAre(0, 0, 0, 2, 0, 0, 0, 3, 0));
  EXPECT_EQ(trace(x).item<int64_t>(), 15);
  EXPECT_EQ(trace(zeros({0, 2})).item<double>(), 0);
}

TEST(Pad, Constant) {
  Tensor x = count({2, 2}) + 1;
  EXPECT_THAT(values(pad(x, {1, 2}, "constant", 9)), ElementsAre(9, 1, 2, 9, 9, 9, 3, 4, 9, 9));
  EXPECT_THAT(values(constant_pad_nd(x, {0, 1, 1, 0}, 7)), ElementsAre(7, 7, 7, 1, 2, 7, 3, 4, 7));
  EXPECT_THAT(values(constant_pad_nd(x, {-1, 1})), ElementsAre(2, 0, 4, 0));
  EXPECT_THAT(values(constant_pad_nd(x, {-3, 2}, 5)), ElementsAre(5, 5));
  EXPECT_THAT(values(pad(x.t(), {1, 0})), ElementsAre(0, 1, 3, 0, 2, 4));
  EXPECT_THAT(values(pad(zeros({0, 2}), {0, 0, 1, 0}, "constant", 3)), ElementsAre(3, 3));
  expect_error<ValueError>([&] { pad(x, {1}); }, "Padding length must be divisible by 2");
  expect_error<ValueError>([&] { pad(x, {1, 1, 1, 1, 1, 1}); }, "no more than twice the number of dimensions");
  expect_error<ShapeError>([&] { pad(x, {-2, -1}); }, "resulted in a negative output size");
  expect_error<ValueError>([&] { pad(x, {1, 1}, "mirror"); }, "Unrecognised padding mode");
  expect_error<ValueError>([&] { pad(x.to(kByte), {1, 1}, "constant", 300); }, "without overflow");
}

TEST(Pad, OtherModes) {
  Tensor x = count({1, 4});
  EXPECT_THAT(values(pad(x, {2, 1}, "reflect")), ElementsAre(2, 1, 0, 1, 2, 3, 2));
  EXPECT_THAT(values(pad(x, {2, 1}, "replicate")), ElementsAre(0, 0, 0, 1, 2, 3, 3));
  EXPECT_THAT(values(pad(x, {2, 1}, "circular")), ElementsAre(2, 3, 0, 1, 2, 3, 0));
  EXPECT_THAT(values(pad(x, {-1, 2}, "reflect")), ElementsAre(1, 2, 3, 2, 1));
  EXPECT_THAT(values(pad(x, {1, -2}, "circular")), ElementsAre(1, 0, 1));
  Tensor y = count({1, 2, 3});
  EXPECT_THAT(values(pad(y, {1, 1, 1, 0}, "reflect")), ElementsAre(4, 3, 4, 5, 4, 1, 0, 1, 2, 1, 4, 3, 4, 5, 4));
  EXPECT_THAT(values(pad(y, {0, 1, 0, 1}, "replicate")), ElementsAre(0, 1, 2, 2, 3, 4, 5, 5, 3, 4, 5, 5));
  EXPECT_THAT(values(pad(y, {0, 1, 1, 0}, "circular")), ElementsAre(3, 4, 5, 3, 0, 1, 2, 0, 3, 4, 5, 3));
  EXPECT_THAT(sizes(pad(zeros({1, 1, 2, 2, 2}), {1, 1, 1, 1, 1, 1}, "reflect")), ElementsAre(1, 1, 4, 4, 4));
  expect_error<ValueError>(
      [&] {
        pad(x, {4, 0}, "reflect");
      },
      "Padding size should be less than the corresponding input dimension");
  expect_error<ValueError>([&] { pad(x, {5, 0}, "circular"); }, "wrapping around more than once");
  expect_error<NotSupportedError>([&] { pad(count({4}), {1, 1}, "reflect"); }, "Only 2D, 3D, 4D, 5D padding");
  expect_error<ValueError>([&] { pad(x, {1, 1}, "reflect", 2); }, "doesn't take in value argument");
  Tensor last = count({1, 2, 3, 4}, kFloat).contiguous(MemoryFormat::ChannelsLast);
  EXPECT_TRUE(pad(last, {1, 1, 1, 1}, "reflect").equal(pad(last.contiguous(), {1, 1, 1, 1}, "reflect")));
  EXPECT_TRUE(pad(last, {1, 1, 1, 1}).is_contiguous(MemoryFormat::ChannelsLast));
}

TEST(Conversion, CloneKeepsTheOrderOfMemory) {
  Tensor x = count({2, 3, 4, 5}, kFloat);
  Tensor p = x.permute({0, 2, 3, 1});
  EXPECT_EQ(strides(p.clone()), strides(p));
  EXPECT_TRUE(p.clone().equal(p));
  EXPECT_TRUE(p.clone(MemoryFormat::Contiguous).is_contiguous());
  EXPECT_TRUE(x.clone(MemoryFormat::ChannelsLast).is_contiguous(MemoryFormat::ChannelsLast));
  EXPECT_TRUE(x.slice(3, 0, 5, 2).clone().is_contiguous());
  EXPECT_TRUE(x.expand({2, 3, 4, 5}).clone().is_contiguous());
  EXPECT_EQ(strides(p.to(kDouble)), strides(p));
  EXPECT_TRUE(x.to(kFloat).is_same(x));
  EXPECT_FALSE(x.to(kFloat, false, true).is_same(x));
  EXPECT_TRUE(x.contiguous().is_same(x));
  EXPECT_TRUE(x.to(kFloat, false, false, MemoryFormat::ChannelsLast).is_contiguous(MemoryFormat::ChannelsLast));
  expect_error<ValueError>([&] { x.contiguous(MemoryFormat::Preserve); },
                           "preserve memory format is unsupported by the contiguous operator");
  expect_error<ShapeError>([&] { x[0].contiguous(MemoryFormat::ChannelsLast); }, "4 dimensions");
  EXPECT_TRUE(count({2, 3, 1, 2, 2}, kFloat)
                  .contiguous(MemoryFormat::ChannelsLast3d)
                  .is_contiguous(MemoryFormat::ChannelsLast3d));
}

TEST(Conversion, CopyBroadcastsAndConverts) {
  Tensor x = zeros({2, 3});
  int64_t version = x._version();
  x.copy_(tensor({1, 2, 3}));
  EXPECT_THAT(values(x), ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_EQ(x._version(), version + 1);
  x.t().copy_(count({3, 2}));
  EXPECT_THAT(values(x), ElementsAre(0, 2, 4, 1, 3, 5));
  Tensor z = zeros({1});
  z.copy_(full({1}, complex<double>(2, 5), kComplexDouble));
  EXPECT_EQ(z.item<float>(), 2);
  expect_error<ShapeError>([&] { x.copy_(zeros({2})); },
                           "copy_: The size of the source (2) must match the size of the target (3)");
  expect_error<ShapeError>([&] { x.copy_(zeros({1, 2, 3})); }, "number of dimensions of the source (3)");
  expect_error<ValueError>(
      [&] {
        x.expand({2, 2, 3}).copy_(x);
      },
      "more than one element of the written-to tensor refers to a single memory location");
  expect_error<NotSupportedError>([&] { x.copy_(zeros({2, 3}, kMeta)); }, "Cannot copy out of meta tensor");
  Tensor line = count({6});
  expect_error<ValueError>([&] { line.slice(0, 0, 4).copy_(line.slice(0, 1, 5)); },
                           "refer to a single memory location");
  EXPECT_THAT(values(line), ElementsAre(0, 1, 2, 3, 4, 5));
  line.copy_(line.view({6}));
  Tensor square = count({2, 4});
  square.slice(1, 0, 2).copy_(square.slice(1, 2, 4));
  EXPECT_THAT(values(square), ElementsAre(2, 3, 2, 3, 6, 7, 6, 7));
}

TEST(Conversion, Devices) {
  Tensor x = count({2});
  Tensor m = x.to(kMeta);
  EXPECT_TRUE(m.is_meta());
  EXPECT_THAT(sizes(m), ElementsAre(2));
  expect_error<NotSupportedError>([&] { m.cpu(); }, "Cannot copy out of meta tensor; no data!");
  expect_error<NotSupportedError>([&] { m[0].item(); }, "meta");
  expect_error<DeviceError>([&] { x.cuda(); }, "cuda is not available");
  expect_error<DeviceError>([&] { x.to(kCUDA); }, "not available");
  EXPECT_TRUE(x.to(Device("cpu:0")).is_same(x));
  EXPECT_TRUE(x.cpu().is_same(x));
  EXPECT_EQ(x.toType(kFloat).scalar_type(), kFloat);
  EXPECT_EQ(x.type_as(zeros({1}, kHalf)).scalar_type(), kHalf);
  expect_error<ValueError>([&] { x.item(); }, "a Tensor with 2 elements cannot be converted to Scalar");
}

TEST(Conversion, Resize) {
  Tensor x = count({2, 3});
  Tensor view = x.view({6});
  x.resize_({3, 4});
  EXPECT_THAT(sizes(x), ElementsAre(3, 4));
  EXPECT_EQ(x[0][3].item<int64_t>(), 3);
  EXPECT_TRUE(view.is_alias_of(x));
  EXPECT_THAT(values(view), ElementsAre(0, 1, 2, 3, 4, 5));
  x.resize_({0});
  EXPECT_EQ(x.numel(), 0);
  expect_error<ShapeError>([&] { x.resize_({-1}); }, "negative dimension");
  EXPECT_THAT(sizes(x), ElementsAre(0));
  float own[2] = {1, 2};
  Tensor blob = from_blob(own, {2});
  expect_error<ValueError>([&] { blob.resize_({3}); }, "belongs to somebody else");
  EXPECT_THAT(sizes(blob), ElementsAre(2));
  Tensor y = zeros({1}, kLong);
  y.set_(view);
  EXPECT_TRUE(y.is_alias_of(view));
  expect_error<DTypeError>([&] { blob.set_(view); }, "Could not set tensor of type Long to a tensor of type Float");
  Tensor last = empty({1}).resize_({2, 3, 4, 5}, MemoryFormat::ChannelsLast);
  EXPECT_TRUE(last.is_contiguous(MemoryFormat::ChannelsLast));
}

}  // namespace
}  // namespace facula
