// The tensor as a handle on memory: copies, views, versions, memory formats, empty and zero-dim tensors. What it says of
// itself and how its elements are reached is in tensor_access_test.cpp; what single ops compute is tested with their records.
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/tensor_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

namespace facula {
namespace {

using namespace indexing;
using facula_test::numbers;
using facula_test::Shape;
using facula_test::Values;
using facula_test::values_of;

// ---- handles

TEST(TensorHandle, CopiesShareTheTensor) {
  Tensor a = zeros({3});
  EXPECT_EQ(a.use_count(), 1);
  Tensor b = a;
  EXPECT_EQ(a.use_count(), 2);
  EXPECT_TRUE(a.is_same(b));
  b.fill_(4);
  EXPECT_EQ(values_of(a), (Values{4, 4, 4}));
  {
    Tensor c(b);
    EXPECT_EQ(a.use_count(), 3);
  }
  EXPECT_EQ(a.use_count(), 2);
  b = zeros({1});
  EXPECT_EQ(a.use_count(), 1);
  EXPECT_EQ(a.sizes(), (Shape{3}));
}

TEST(TensorHandle, MovesLeaveTheSourceUndefined) {
  Tensor a = zeros({3});
  const void* data = a.data_ptr();
  Tensor b = std::move(a);
  EXPECT_FALSE(a.defined());
  EXPECT_EQ(b.data_ptr(), data);
  EXPECT_EQ(b.use_count(), 1);

  int freed = 0;
  std::vector<float> memory(4);
  Tensor target = from_blob(
      memory.data(), {4}, [&](void*) { ++freed; }, kFloat);
  target = std::move(b);
  EXPECT_FALSE(b.defined());
  EXPECT_EQ(freed, 1) << "what the target held must go when it is assigned";
  EXPECT_EQ(target.data_ptr(), data);

  Tensor& self = target;
  target = std::move(self);
  EXPECT_EQ(target.data_ptr(), data);
  target = self;
  EXPECT_EQ(target.use_count(), 1);
}

TEST(TensorHandle, ResetAndUndefined) {
  Tensor a = zeros({3});
  a.reset();
  EXPECT_FALSE(a.defined());
  EXPECT_EQ(a.use_count(), 0);
  EXPECT_TRUE(a.is_same(Tensor()));
  EXPECT_RAISES(a.sizes(), ValueError, "undefined");
  EXPECT_RAISES(a.numel(), ValueError, "undefined");
  EXPECT_RAISES(a + 1, ValueError, "add");
  EXPECT_RAISES(zeros({2}) + a, ValueError, "undefined");
  EXPECT_RAISES(a.item(), ValueError, "item");
  a.reset();
}

TEST(TensorHandle, ManyThreadsCopyOneHandle) {
  Tensor a = ones({64});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([a] {
      for (int i = 0; i < 2000; ++i) {
        Tensor b = a, c = b.view({8, 8});
        b = c;
      }
    });
  for (auto& t : threads) t.join();
  threads.clear();
  EXPECT_EQ(a.use_count(), 1);
  EXPECT_EQ(a.sum().item<float>(), 64);
}

TEST(TensorHandle, ReturnsReferencesOfInPlaceOpsToSelf) {
  Tensor a = ones({2});
  EXPECT_EQ(&a.add_(1), &a);
  EXPECT_EQ(&a.mul_(a).sub_(1), &a);
  EXPECT_EQ(values_of(a), (Values{3, 3}));
  Tensor out = empty({0});
  EXPECT_EQ(&add_out(out, a, a), &out);
  const Tensor constant = a;
  constant.add_(1);  // a handle is const, its elements are not
  EXPECT_EQ(values_of(a), (Values{4, 4}));
}

// ---- views and versions

TEST(TensorView, SharesStorageWithItsOffset) {
  Tensor x = numbers({4, 6});
  Tensor v = x.slice(0, 1, 4, 2).slice(1, 2, 5);
  EXPECT_TRUE(v.is_alias_of(x));
  EXPECT_EQ(v.sizes(), (Shape{2, 3}));
  EXPECT_EQ(v.strides(), (Shape{12, 1}));
  EXPECT_EQ(v.storage_offset(), 8);
  EXPECT_EQ(v.data_ptr<float>(), x.data_ptr<float>() + 8);
  EXPECT_EQ(values_of(v), (Values{8, 9, 10, 20, 21, 22}));
  EXPECT_EQ(x.storage().use_count() >= 2, true);
  EXPECT_EQ(v.storage().nbytes(), 24 * sizeof(float));
  v.fill_(-1);
  EXPECT_EQ(x[1][2].item<float>(), -1);
  EXPECT_EQ(x[3][4].item<float>(), -1);
  EXPECT_EQ(x[2][2].item<float>(), 14);
  Tensor kept;
  {
    Tensor base = numbers({3, 3});
    kept = base.t()[1];
  }
  EXPECT_EQ(values_of(kept), (Values{1, 4, 7})) << "a view keeps the storage of its base";
}

TEST(TensorVersion, RisesOnceForEveryWrite) {
  Tensor x = numbers({4, 4}), y = ones({4, 4}), index = tensor({0, 1}), mask = x.gt(3);
  Tensor view = x.t().slice(0, 1, 3);
  int64_t version = x._version();
  EXPECT_EQ(version, 0);
  auto once = [&](const char* what, auto&& write) {
    write();
    EXPECT_EQ(x._version(), version + 1) << what;
    EXPECT_EQ(view._version(), x._version()) << what;
    version = x._version();
  };
  once("add_", [&] { x.add_(y); });
  once("add_ number", [&] { x.add_(2); });
  once("+=", [&] { x += y; });
  once("view", [&] { view.mul_(2); });
  once("add_out", [&] { add_out(x, y, y); });
  once("matmul_out", [&] { mm_out(x, y, y); });
  once("sum_out", [&] {
    Tensor row = x[0];
    sum_out(row, y, IntArrayRef({0}), false);
  });
  once("cat_out", [&] { cat_out(x, {y.slice(0, 0, 2), y.slice(0, 0, 2)}, 0); });
  once("copy_", [&] { x.copy_(y); });
  once("fill_", [&] { x.fill_(3); });
  once("zero_", [&] { x.zero_(); });
  once("index_put_ of a slice", [&] { x.index_put_({Slice(0, 2)}, 1); });
  once("index_put_ of a tensor", [&] { x.index_put_({index}, y[0]); });
  once("masked_fill_", [&] { x.masked_fill_(mask, 5); });
  once("index_fill_", [&] { x.index_fill_(0, index, 5); });
  once("scatter_", [&] { x.scatter_(0, zeros({1, 4}, kLong), y); });
  once("random_", [&] { x.random_(); });
  once("uniform_", [&] { x.uniform_(); });
  once("normal_", [&] { x.normal_(); });
  once("bernoulli_", [&] { x.bernoulli_(0.5); });
  once("clamp_", [&] { x.clamp_(0, 1); });
  once("tril_", [&] { x.tril_(); });
  once("cumsum_", [&] { x.cumsum_(0); });
  once("x[0] = y", [&] { x[0] = y[0]; });
  once("x.index() = number", [&] { x.index({1, Slice()}) = 2; });
  once("abs_", [&] { x.abs_(); });
  once("t_", [&] { x.t_(); });
  once("unsqueeze_", [&] { x.unsqueeze_(0); });
  once("squeeze_", [&] { x.squeeze_(); });
}

TEST(TensorVersion, StaysWhenNothingIsWritten) {
  Tensor x = numbers({4, 4});
  x.add_(1);
  int64_t before = x._version();
  x.sum();
  x + 1;
  x.view({16});
  x.t().contiguous();
  x.index({tensor({0, 1})});
  x.clone().add_(1);
  x.to(kDouble).add_(1);
  Tensor out = empty({4, 4});
  add_out(out, x, x);
  EXPECT_THROW(x.add_(ones({5})), ShapeError);
  EXPECT_THROW(x.add_(ones({4}, kComplexFloat)), DTypeError);
  EXPECT_EQ(x._version(), before);
  EXPECT_EQ(x.clone()._version(), 0);
}

TEST(TensorOverlap, IsRefusedWhereResultsWouldDependOnOrder) {
  Tensor x = numbers({6});
  Tensor overlapping = x.slice(0, 0, 5);
  EXPECT_THROW(x.slice(0, 1, 6).add_(overlapping), ValueError);
  EXPECT_THROW(x.expand({2, 6}).add_(1), ValueError);
  x.add_(x);
  EXPECT_EQ(values_of(x), (Values{0, 2, 4, 6, 8, 10}));
}

TEST(TensorOverlap, IsNoMatterWhereNoElementIsShared) {
  // Rows and columns of one buffer: ranges overlap, elements do not.
  Tensor table = numbers({3, 4});
  Tensor sums = table.select(1, 3);
  sum_out(sums, table.narrow(1, 0, 2), {1});
  EXPECT_EQ(values_of(table), (Values{0, 1, 2, 1, 4, 5, 6, 9, 8, 9, 10, 17}));
  EXPECT_THROW(sum_out(sums, table.narrow(1, 2, 2), {1}), ValueError);
  EXPECT_EQ(values_of(table), (Values{0, 1, 2, 1, 4, 5, 6, 9, 8, 9, 10, 17}));

  Tensor pairs = zeros({3, 2}), values = pairs.select(1, 0), indices = pairs.select(1, 1);
  max_out(values, indices, table, 1);
  EXPECT_EQ(values_of(pairs), (Values{2, 2, 9, 3, 17, 3}));
}

TEST(TensorView, ResizeGrowsAndKeepsWhatWasThere) {
  Tensor x = numbers({2, 3});
  EXPECT_EQ(&x.resize_({3}), &x);
  EXPECT_EQ(values_of(x), (Values{0, 1, 2}));
  x.resize_({2, 3});
  EXPECT_EQ(values_of(x), (Values{0, 1, 2, 3, 4, 5})) << "shrinking does not free";
  x.resize_({100, 100});
  EXPECT_EQ(x.numel(), 10000);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(x.data_ptr<float>()[i], static_cast<float>(i));
  x.resize_({2, 3, 4, 5}, MemoryFormat::ChannelsLast);
  EXPECT_EQ(x.strides(), (Shape{60, 1, 15, 3}));
  x.resize_({0});
  EXPECT_EQ(x.numel(), 0);
  Tensor empty_one = empty({0}, kLong);
  empty_one.resize_as_(zeros({2, 2}));
  empty_one.fill_(7);
  EXPECT_EQ(values_of(empty_one), (Values{7, 7, 7, 7}));
  std::vector<float> memory(4);
  Tensor foreign = from_blob(memory.data(), {4}, kFloat);
  foreign.resize_({2});
  EXPECT_RAISES(foreign.resize_({8}), ValueError, "from_blob");
  EXPECT_RAISES(x.resize_({-1}), ShapeError, "resize_");
}

TEST(TensorView, SetTakesOverAnotherTensorsMemory) {
  Tensor x = zeros({2}), y = numbers({2, 3}).t();
  Tensor same = x;
  x.set_(y);
  EXPECT_TRUE(x.is_alias_of(y));
  EXPECT_EQ(x.sizes(), (Shape{3, 2}));
  EXPECT_EQ(values_of(same), (Values{0, 3, 1, 4, 2, 5})) << "all handles see it";
  EXPECT_RAISES(x.set_(zeros({2}, kLong)), DTypeError, "set_");
}

TEST(FromBlob, CallsItsDeleterExactlyOnce) {
  std::vector<int32_t> memory{1, 2, 3, 4, 5, 6};
  int calls = 0;
  void* given = nullptr;
  {
    Tensor x = from_blob(
        memory.data(), {2, 3}, [&](void* p) { ++calls, given = p; }, kInt);
    EXPECT_EQ(x.data_ptr<int32_t>(), memory.data());
    Tensor view = x.t(), copy = x;
    x.reset();
    copy = Tensor();
    EXPECT_EQ(calls, 0) << "the view still reads it";
    EXPECT_EQ(values_of(view), (Values{1, 4, 2, 5, 3, 6}));
    view.add_(1);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(given, memory.data());
  EXPECT_EQ(memory[5], 7);

  Tensor strided = from_blob(memory.data(), {2, 2}, {3, 2}, TensorOptions(kInt));
  EXPECT_EQ(values_of(strided), (Values{2, 4, 5, 7}));
  calls = 0;
  EXPECT_THROW(from_blob(
                   memory.data(), {-1}, [&](void*) { ++calls; }, kInt),
               Error);
  EXPECT_EQ(calls, 1) << "memory that is refused is freed all the same";
}

// ---- memory formats

void expect_format(const Tensor& t, MemoryFormat format, const char* what) {
  EXPECT_TRUE(t.is_contiguous(format)) << what << " strides " << t.strides();
  EXPECT_EQ(t.suggest_memory_format(), format) << what;
}

TEST(MemoryFormats, StridesOfChannelsLast) {
  Tensor x = empty({2, 3, 4, 5}, TensorOptions().memory_format(MemoryFormat::ChannelsLast));
  EXPECT_EQ(x.strides(), (Shape{60, 1, 15, 3}));
  EXPECT_FALSE(x.is_contiguous());
  expect_format(x, MemoryFormat::ChannelsLast, "empty");
  Tensor y = numbers({2, 3, 4, 5, 6}).contiguous(MemoryFormat::ChannelsLast3d);
  EXPECT_EQ(y.strides(), (Shape{360, 1, 90, 18, 3}));
  EXPECT_FALSE(y.is_contiguous(MemoryFormat::ChannelsLast));
  expect_format(y, MemoryFormat::ChannelsLast3d, "contiguous");
  EXPECT_EQ(values_of(y), values_of(numbers({2, 3, 4, 5, 6})));
  EXPECT_THROW(zeros({2, 3}).contiguous(MemoryFormat::ChannelsLast), Error);
}

TEST(MemoryFormats, GoThroughPointwiseOps) {
  Tensor plain = numbers({2, 3, 4, 5});
  Tensor x = plain.contiguous(MemoryFormat::ChannelsLast);
  Values expected = values_of(plain);
  EXPECT_EQ(values_of(x), expected);
  auto check = [&](const Tensor& t, const char* what) { expect_format(t, MemoryFormat::ChannelsLast, what); };
  check(x + 1, "add a number");
  check(x + x, "add");
  check(x * ones({3, 1, 1}), "mul with broadcast");
  check(ones({3, 1, 1}) * x, "mul with broadcast on the left");
  check(relu(x), "relu");
  check(x.gt(3), "gt");
  check(x.to(kDouble), "to");
  check(x.clone(), "clone");
  check(empty_like(x), "empty_like");
  check(zeros_like(x), "zeros_like");
  check(rand_like(x), "rand_like");
  check(where(x.gt(3), x, x), "where");
  check(x.sqrt().exp(), "chain");
  Values doubled;
  for (double v : expected) doubled.push_back(2 * v + 1);
  EXPECT_EQ(values_of(x + x + 1), doubled);
  EXPECT_EQ(values_of(x + plain), values_of(plain + x));
  EXPECT_TRUE((plain + x).is_contiguous()) << "the first operand decides";
  check(x + plain, "the first operand decides");
  EXPECT_TRUE(x.clone(MemoryFormat::Contiguous).is_contiguous());
  EXPECT_TRUE(empty_like(x, TensorOptions(), MemoryFormat::Contiguous).is_contiguous());
  EXPECT_TRUE(x.contiguous().is_contiguous());
  EXPECT_TRUE(x.contiguous(MemoryFormat::ChannelsLast).is_same(x));
  Tensor in_place = x.clone();
  in_place.add_(plain);
  check(in_place, "in place");
  Values sum;
  for (double v : expected) sum.push_back(2 * v);
  EXPECT_EQ(values_of(in_place), sum);
}

TEST(MemoryFormats, AnyDenseOrderIsKept) {
  Tensor x = numbers({3, 4, 5}).permute({2, 0, 1});
  EXPECT_TRUE(x.is_non_overlapping_and_dense());
  EXPECT_EQ((x + 1).strides(), x.strides());
  EXPECT_EQ(x.clone().strides(), x.strides());
  EXPECT_EQ(empty_like(x).strides(), x.strides());
  Tensor gaps = numbers({4, 6}).t().slice(0, 0, 6, 2);
  EXPECT_FALSE(gaps.is_non_overlapping_and_dense());
  Tensor sum = gaps + 0;
  EXPECT_TRUE(sum.is_non_overlapping_and_dense());
  EXPECT_EQ(sum.strides(), (Shape{1, 3})) << "gaps go, the order stays";
  EXPECT_EQ(values_of(sum), values_of(gaps));
  EXPECT_EQ(numbers({4}).expand({3, 4}).clone().strides(), (Shape{4, 1}));
  EXPECT_EQ((ones({4, 1}).expand({4, 3}) * numbers({3, 4}).t()).strides(), (Shape{1, 4}))
      << "expanded operands do not decide";
}

TEST(MemoryFormats, SizesOfOneAreAmbiguous) {
  Tensor x = zeros({2, 1, 4, 4});
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_TRUE(x.is_contiguous(MemoryFormat::ChannelsLast));
  EXPECT_EQ(x.suggest_memory_format(), MemoryFormat::Contiguous);
}

// ---- empty and zero-dim tensors

TEST(EmptyTensors, GoThroughOps) {
  for (Shape shape : {Shape{0}, Shape{2, 0}, Shape{0, 3}, Shape{2, 0, 3}}) {
    SCOPED_TRACE(to_text(IntArrayRef(shape)));
    Tensor x = facula::empty(shape);
    EXPECT_EQ(x.numel(), 0);
    EXPECT_EQ(x.nbytes(), 0u);
    EXPECT_TRUE(x.is_contiguous());
    EXPECT_EQ((x + 1).sizes(), IntArrayRef(shape));
    EXPECT_EQ((x + x).sizes(), IntArrayRef(shape));
    EXPECT_EQ(exp(x).sizes(), IntArrayRef(shape));
    EXPECT_EQ(x.sum().item<float>(), 0);
    EXPECT_EQ(x.prod().item<float>(), 1);
    EXPECT_TRUE(std::isnan(x.mean().item<float>()));
    EXPECT_TRUE(x.all().item<bool>());
    EXPECT_FALSE(x.any().item<bool>());
    EXPECT_THROW(x.max(), Error);
    EXPECT_THROW(x.argmax(), Error);
    EXPECT_EQ(x.clone().sizes(), IntArrayRef(shape));
    EXPECT_EQ(x.to(kLong).scalar_type(), kLong);
    EXPECT_EQ(x.fill_(3).numel(), 0);
    EXPECT_EQ(x.reshape({0, 7}).sizes(), (Shape{0, 7}));
    EXPECT_EQ(x.nonzero().sizes(), (Shape{0, static_cast<int64_t>(shape.size())}));
    EXPECT_EQ(x.masked_select(x.gt(0)).sizes(), (Shape{0}));
    EXPECT_EQ(cat({x.reshape({0}), ones({2})}).sizes(), (Shape{2}));
    EXPECT_EQ(std::get<0>(x.sort(-1)).sizes(), IntArrayRef(shape));
    EXPECT_EQ(x.cumsum(-1).sizes(), IntArrayRef(shape));
    EXPECT_TRUE(equal(x, x.clone()));
    EXPECT_TRUE(allclose(x, x.clone()));
    EXPECT_RAISES(x.item(), ValueError, "0 elements");
    x.uniform_();
    EXPECT_EQ(x.softmax(-1).sizes(), IntArrayRef(shape));
  }
  EXPECT_EQ(values_of(empty({0, 3}).sum(0)), (Values{0, 0, 0}));
  EXPECT_EQ(values_of(matmul(empty({2, 0}), empty({0, 3}))), (Values{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ((empty({0, 1}) + ones({4})).sizes(), (Shape{0, 4}));
}

TEST(ZeroDimTensors, GoThroughOps) {
  Tensor x = scalar_tensor(2.5);
  EXPECT_EQ(x.dim(), 0);
  EXPECT_EQ(x.numel(), 1);
  EXPECT_EQ(x.sizes(), Shape{});
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ((x + x).dim(), 0);
  EXPECT_EQ((x * 2).item<float>(), 5);
  EXPECT_EQ((x + ones({3})).sizes(), (Shape{3}));
  EXPECT_EQ(x.sum(0).item<float>(), 2.5f);
  EXPECT_EQ(x.sum(-1).item<float>(), 2.5f);
  EXPECT_EQ(std::get<0>(x.max(0)).item<float>(), 2.5f);
  EXPECT_EQ(x.argmax().item<int64_t>(), 0);
  EXPECT_EQ(std::get<0>(x.sort(0)).item<float>(), 2.5f);
  EXPECT_EQ(x.cumsum(0).item<float>(), 2.5f);
  EXPECT_EQ(x.softmax(0).item<float>(), 1);
  EXPECT_EQ(x.unsqueeze(0).sizes(), (Shape{1}));
  EXPECT_EQ(x.squeeze().dim(), 0);
  EXPECT_EQ(x.expand({2, 2}).sizes(), (Shape{2, 2}));
  EXPECT_EQ(x.flatten().sizes(), (Shape{1}));
  EXPECT_EQ(x.reshape({1, 1}).sizes(), (Shape{1, 1}));
  EXPECT_EQ(x.t().dim(), 0);
  EXPECT_EQ(x.nonzero().sizes(), (Shape{1, 0}));
  EXPECT_EQ(stack({x, x}).sizes(), (Shape{2}));
  EXPECT_EQ(x.index({None}).sizes(), (Shape{1}));
  EXPECT_EQ(x.index({"..."}).dim(), 0);
  EXPECT_THROW(x[0], IndexError);
  EXPECT_THROW(x.size(0), IndexError);
  EXPECT_THROW(x.sum(1), IndexError);
  x.fill_(7);
  EXPECT_EQ(x.item<int>(), 7);
  x.index_put_({"..."}, 3);
  EXPECT_EQ(x.item<int>(), 3);
  EXPECT_EQ(x.masked_select(x.gt(1)).sizes(), (Shape{1}));
}

TEST(Geometry, SizesAndStridesByDim) {
  Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(x.size(0), 2);
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_EQ(x.stride(-3), 12);
  EXPECT_EQ(x.ndimension(), 3);
  EXPECT_EQ(x.itemsize(), 4);
  EXPECT_EQ(x.nbytes(), 96u);
  EXPECT_RAISES(x.size(3), IndexError, "Dimension out of range");
  EXPECT_RAISES(x.stride(-4), IndexError, "Dimension out of range");
  EXPECT_THROW(zeros({2, -1}), Error);
  EXPECT_THROW(empty({int64_t{1} << 40, int64_t{1} << 40}), Error);
}

}  // namespace
}  // namespace facula
