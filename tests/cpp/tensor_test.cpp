// The tensor as a value: handles, views, versions, memory formats, empty and zero-dim tensors, options, scalars, devices, and assignment
// through temporaries. What single ops compute is tested with their records.
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

namespace facula {
namespace {

using namespace indexing;
using Shape = std::vector<int64_t>;
using Values = std::vector<double>;
using testing::HasSubstr;

Tensor numbers(const Shape& shape, ScalarType dtype = kFloat) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  std::vector<double> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0.0);
  return from_blob(v.data(), shape, kDouble).clone().to(dtype);
}
// In logical order, read through strides by hand.
Values values_of(const Tensor& t) {
  Tensor d = t.to(kDouble);
  Values out;
  for (int64_t k = 0; k < d.numel(); ++k) {
    int64_t rest = k, at = 0;
    for (int64_t i = d.dim(); i-- > 0; rest /= d.size(i)) at += rest % d.size(i) * d.stride(i);
    out.push_back(d.data_ptr<double>()[at]);
  }
  return out;
}

#define EXPECT_RAISES(expression, Type, text)       \
  try {                                             \
    expression;                                     \
    ADD_FAILURE() << #expression " raised nothing"; \
  } catch (const Type& e) {                         \
    EXPECT_THAT(e.what(), HasSubstr(text));         \
  }

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

// ---- options, dtypes, devices

TEST(Options, KeepWhatWasSet) {
  TensorOptions o;
  EXPECT_FALSE(o.has_dtype() || o.has_device() || o.has_memory_format());
  EXPECT_EQ(o.dtype(), kFloat);
  EXPECT_EQ(o.device(), Device(kCPU));
  TensorOptions p = o.dtype(kLong).device(kMeta).memory_format(MemoryFormat::ChannelsLast);
  EXPECT_EQ(p.dtype(), kLong);
  EXPECT_EQ(p.device(), Device(kMeta));
  EXPECT_EQ(p.memory_format_opt(), MemoryFormat::ChannelsLast);
  EXPECT_FALSE(o.has_dtype()) << "setters leave the original alone";
  EXPECT_EQ(p.dtype(std::nullopt).dtype(), kFloat);
  EXPECT_EQ(o.merge_in(p), p);
  EXPECT_EQ(p.merge_in(kInt).dtype(), kInt);
  EXPECT_EQ(p.merge_in(kInt).device(), Device(kMeta));
  EXPECT_EQ(dtype(kByte).device(kCPU).dtype(), kByte);
  EXPECT_EQ(device("cpu").dtype(kByte), dtype(kByte).device(kCPU));
  Tensor x = zeros({2}, dtype(kShort));
  EXPECT_EQ(x.options().dtype(), kShort);
  EXPECT_EQ(zeros({2}, x.options()).scalar_type(), kShort);
  std::ostringstream text;
  text << p;
  EXPECT_THAT(text.str(), HasSubstr("Long"));
}

class DefaultDtype : public testing::Test {
 protected:
  void TearDown() override { set_default_dtype(kFloat); }
};

TEST_F(DefaultDtype, DecidesFactoriesAndLiterals) {
  for (ScalarType t : {kDouble, kHalf, kBFloat16, kFloat}) {
    set_default_dtype(t);
    EXPECT_EQ(get_default_dtype(), t);
    EXPECT_EQ(zeros({1}).scalar_type(), t);
    EXPECT_EQ(rand({1}).scalar_type(), t);
    EXPECT_EQ(tensor({1.0, 2.0}).scalar_type(), t);
    EXPECT_EQ(tensor(1.0f).scalar_type(), t);
    EXPECT_EQ(tensor({1, 2}).scalar_type(), kLong);
    EXPECT_EQ(tensor({true}).scalar_type(), kBool);
    EXPECT_EQ(arange(3).scalar_type(), kLong);
    EXPECT_EQ(arange(3.0).scalar_type(), t);
    EXPECT_EQ(full({1}, 1.5).scalar_type(), t);
    EXPECT_EQ(full({1}, 1).scalar_type(), kLong);
    EXPECT_EQ(full({1}, true).scalar_type(), kBool);
    EXPECT_EQ(TensorOptions().dtype(), t);
  }
  EXPECT_RAISES(set_default_dtype(kLong), DTypeError, "only floating-point types");
  EXPECT_RAISES(set_default_dtype(kComplexFloat), DTypeError, "only floating-point types");
  EXPECT_EQ(get_default_dtype(), kFloat);
}

TEST(DTypes, NamesSizesKinds) {
  struct Expected {
    ScalarType type;
    const char* name;
    const char* python;
    size_t bytes;
    char kind;  // bool, signed, unsigned, float, complex
  };
  const Expected all[] = {{kByte, "Byte", "uint8", 1, 'u'},
                          {kChar, "Char", "int8", 1, 's'},
                          {kShort, "Short", "int16", 2, 's'},
                          {kInt, "Int", "int32", 4, 's'},
                          {kLong, "Long", "int64", 8, 's'},
                          {kHalf, "Half", "float16", 2, 'f'},
                          {kFloat, "Float", "float32", 4, 'f'},
                          {kDouble, "Double", "float64", 8, 'f'},
                          {kComplexHalf, "ComplexHalf", "complex32", 4, 'c'},
                          {kComplexFloat, "ComplexFloat", "complex64", 8, 'c'},
                          {kComplexDouble, "ComplexDouble", "complex128", 16, 'c'},
                          {kBool, "Bool", "bool", 1, 'b'},
                          {kBFloat16, "BFloat16", "bfloat16", 2, 'f'},
                          {kFloat8_e5m2, "Float8_e5m2", "float8_e5m2", 1, 'f'},
                          {kFloat8_e4m3fn, "Float8_e4m3fn", "float8_e4m3fn", 1, 'f'},
                          {kUInt16, "UInt16", "uint16", 2, 'u'},
                          {kUInt32, "UInt32", "uint32", 4, 'u'},
                          {kUInt64, "UInt64", "uint64", 8, 'u'}};
  EXPECT_EQ(std::size(all), static_cast<size_t>(kNumScalarTypes));
  for (const Expected& e : all) {
    EXPECT_STREQ(toString(e.type), e.name);
    EXPECT_STREQ(dtype_name(e.type), e.python);
    EXPECT_EQ(elementSize(e.type), e.bytes) << e.name;
    EXPECT_EQ(isFloatingType(e.type), e.kind == 'f') << e.name;
    EXPECT_EQ(isComplexType(e.type), e.kind == 'c') << e.name;
    EXPECT_EQ(isIntegralType(e.type, false), e.kind == 's' || e.kind == 'u') << e.name;
    EXPECT_EQ(isIntegralType(e.type, true), e.kind == 's' || e.kind == 'u' || e.kind == 'b') << e.name;
    EXPECT_EQ(isSignedType(e.type), e.kind == 's' || e.kind == 'f' || e.kind == 'c') << e.name;
    std::ostringstream text;
    text << e.type;
    EXPECT_EQ(text.str(), e.name);
    Tensor x = zeros({3}, e.type);
    EXPECT_EQ(x.nbytes(), 3 * e.bytes);
    EXPECT_EQ(x.is_floating_point(), e.kind == 'f');
    EXPECT_EQ(x.is_complex(), e.kind == 'c');
    EXPECT_EQ(values_of((x.is_complex() ? real(x) : x).fill_(1)), (Values{1, 1, 1})) << e.name;
  }
}

TEST(Devices, ParseTheirText) {
  EXPECT_EQ(Device("cpu"), Device(kCPU));
  EXPECT_EQ(Device("cpu:0"), Device(kCPU, 0));
  EXPECT_EQ(Device("cuda"), Device(kCUDA));
  EXPECT_EQ(Device("cuda:1"), Device(kCUDA, 1));
  EXPECT_EQ(Device(std::string("cuda:12")).index(), 12);
  EXPECT_EQ(Device("meta").type(), kMeta);
  EXPECT_FALSE(Device("cuda").has_index());
  for (const char* text :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda:01", "cuda:300", ":1", "CPU", "cpu:1:2", " cpu"})
    EXPECT_THROW(Device{text}, DeviceError) << '"' << text << '"';
  EXPECT_EQ(Device("cuda:1").str(), "cuda:1");
  EXPECT_EQ(Device(kCPU).str(), "cpu");
  std::ostringstream out;
  out << Device("cuda:3") << ' ' << kCPU;
  EXPECT_EQ(out.str(), "cuda:3 cpu");
  EXPECT_THROW(zeros({2}, Device(kCUDA)), DeviceError);
  EXPECT_THROW(zeros({2}).cuda(), DeviceError);
  Tensor x = zeros({2});
  EXPECT_TRUE(x.cpu().is_same(x));
}

TEST(MetaTensors, HaveShapesWithoutValues) {
  Tensor x = empty({1 << 20, 1 << 20}, device(kMeta));
  EXPECT_TRUE(x.is_meta());
  EXPECT_EQ(x.data_ptr(), nullptr);
  Tensor y = (x + 1).t().sum(0, true);
  EXPECT_EQ(y.sizes(), (Shape{1, 1 << 20}));
  EXPECT_TRUE(y.is_meta());
  EXPECT_EQ(matmul(x, x).sizes(), x.sizes());
  EXPECT_EQ(x.gt(0).scalar_type(), kBool);
  EXPECT_EQ((x + ones({})).sizes(), x.sizes()) << "a number on the cpu goes with any device";
  EXPECT_THROW(x + ones({1 << 20}), DeviceError);
  EXPECT_THROW(x.item(), Error);
  EXPECT_THROW(empty({}, device(kMeta)).item(), NotSupportedError);
  EXPECT_THROW(x.cpu(), Error);
  EXPECT_EQ(zeros({2, 3}).to(kMeta).sizes(), (Shape{2, 3}));
  x.add_(1);
  EXPECT_EQ(x._version(), 1);
}

// ---- elements and scalars

TEST(Elements, AreReadByItemAccessorAndPointer) {
  Tensor x = numbers({2, 3, 4});
  auto a = x.accessor<float, 3>();
  EXPECT_EQ(a[1][2][3], 23);
  EXPECT_EQ(a.size(1), 3);
  EXPECT_EQ(a.stride(0), 12);
  a[0][1][2] = 100;
  EXPECT_EQ(x[0][1][2].item<float>(), 100);
  Tensor permuted = x.permute({2, 0, 1});
  auto t = permuted.accessor<float, 3>();
  EXPECT_EQ(t[2][0][1], 100);
  EXPECT_THROW((x.accessor<float, 2>()), ShapeError);
  EXPECT_THROW((x.accessor<double, 3>()), DTypeError);
  EXPECT_RAISES(x.data_ptr<int>(), DTypeError, "expected scalar type Int but found Float");
  EXPECT_EQ(x.const_data_ptr<float>()[23], 23);
  EXPECT_RAISES(x.item(), ValueError, "24 elements");
  EXPECT_EQ(tensor({{{5}}}).item<int>(), 5);
}

TEST(Elements, ItemConvertsEveryDtype) {
  for (int t = 0; t < kNumScalarTypes; ++t) {
    ScalarType dtype = static_cast<ScalarType>(t);
    Tensor one = ones({1}, dtype);
    EXPECT_EQ(one.item<double>(), 1) << toString(dtype);
    EXPECT_EQ(one.item<int>(), 1) << toString(dtype);
    EXPECT_EQ(one.item<bool>(), true) << toString(dtype);
    EXPECT_EQ(one.item<Half>(), Half(1.0f)) << toString(dtype);
    EXPECT_EQ(one.item<complex<float>>(), complex<float>(1, 0)) << toString(dtype);
    EXPECT_EQ(one.item().isFloatingPoint(), isFloatingType(dtype)) << toString(dtype);
    EXPECT_EQ(one.item().isBoolean(), dtype == kBool) << toString(dtype);
    EXPECT_EQ(one.item().isComplex(), isComplexType(dtype)) << toString(dtype);
  }
  uint64_t large = 18446744073709551615u;
  EXPECT_EQ(tensor({large}, kUInt64).item<uint64_t>(), large);
  EXPECT_EQ(tensor({std::numeric_limits<int64_t>::min()}).item<int64_t>(), std::numeric_limits<int64_t>::min());
}

TEST(Scalars, RefuseWhatDoesNotFit) {
  EXPECT_EQ(Scalar(127).to<int8_t>(), 127);
  EXPECT_EQ(Scalar(-128).to<int8_t>(), -128);
  EXPECT_RAISES(Scalar(128).to<int8_t>(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(-129).toChar(), ValueError, "int8_t");
  EXPECT_RAISES(Scalar(256).toByte(), ValueError, "uint8_t");
  EXPECT_EQ(Scalar(-1).to<uint8_t>(), 255) << "negative numbers wrap";
  EXPECT_EQ(Scalar(-200).to<uint8_t>(), 56);
  EXPECT_RAISES(Scalar(-256).to<uint8_t>(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(127.9).toChar(), ValueError, "int8_t");
  EXPECT_EQ(Scalar(-127.9).toChar(), -127);
  EXPECT_RAISES(Scalar(40000).toShort(), ValueError, "int16_t");
  EXPECT_RAISES(Scalar(int64_t{1} << 31).toInt(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(1e300).toFloat(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(-1e300).to<float>(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(70000.0).toHalf(), ValueError, "without overflow");
  EXPECT_EQ(Scalar(65504.0).toHalf(), Half(65504.0f));
  EXPECT_TRUE(std::isinf(Scalar(std::numeric_limits<double>::infinity()).toFloat()));
  EXPECT_TRUE(std::isnan(Scalar(std::nan("")).toFloat()));
  EXPECT_RAISES(Scalar(1e19).toLong(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(std::nan("")).toLong(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(18446744073709551615u).toLong(), ValueError, "without overflow");
  EXPECT_EQ(Scalar(18446744073709551615u).toUInt64(), 18446744073709551615u);
  EXPECT_EQ(Scalar(18446744073709551615u).toDouble(), 18446744073709551616.0);
  EXPECT_EQ(Scalar(2.9).toInt(), 2);
  EXPECT_EQ(Scalar(-2.9).toLong(), -2);
  EXPECT_RAISES(Scalar(complex<double>(1, 2)).toDouble(), ValueError, "(1,2)");
  EXPECT_EQ(Scalar(complex<double>(3, 0)).toDouble(), 3);
  EXPECT_EQ(Scalar(complex<double>(1, 2)).toComplexFloat(), complex<float>(1, 2));
  EXPECT_RAISES(Scalar(complex<double>(1e300, 2)).toComplexFloat(), ValueError, "without overflow");
}

TEST(Scalars, KnowTheirKind) {
  EXPECT_EQ(Scalar(true).type(), kBool);
  EXPECT_EQ(Scalar(1).type(), kLong);
  EXPECT_EQ(Scalar(1u).type(), kLong);
  EXPECT_EQ(Scalar(1.0f).type(), kDouble);
  EXPECT_EQ(Scalar(Half(1.0f)).type(), kDouble);
  EXPECT_EQ(Scalar(complex<float>(1, 2)).type(), kComplexDouble);
  EXPECT_EQ(Scalar().toLong(), 0);
  EXPECT_TRUE(Scalar(7).equal_int(7));
  EXPECT_TRUE(Scalar(7.0).equal_int(7));
  EXPECT_FALSE(Scalar(7.5).equal_int(7));
  EXPECT_EQ(-Scalar(3), Scalar(-3));
  EXPECT_EQ(Scalar(complex<double>(1, 2)).conj(), Scalar(complex<double>(1, -2)));
  EXPECT_EQ(Scalar(2.5).str(), "2.5");
  EXPECT_EQ(Scalar(false).toBool(), false);
  EXPECT_EQ(Scalar(0.1).toBool(), true);
}

TEST(TensorData, TakesNestedListsAndArrays) {
  Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(x.sizes(), (Shape{2, 3}));
  EXPECT_EQ(x.scalar_type(), kLong);
  EXPECT_EQ(values_of(x), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor({{{1.5}}, {{2.5}}}).sizes(), (Shape{2, 1, 1}));
  EXPECT_EQ(tensor(3).dim(), 0);
  EXPECT_EQ(values_of(tensor(std::vector<int16_t>{1, 2}, kDouble)), (Values{1, 2}));
  EXPECT_EQ(tensor(std::vector<int>{1, 2}).scalar_type(), kLong);
  EXPECT_EQ(tensor(std::vector<double>{1, 2}).scalar_type(), kFloat);
  EXPECT_EQ(tensor(std::vector<uint8_t>{1, 2}).scalar_type(), kByte);
  EXPECT_EQ(values_of(tensor(std::vector<bool>{true, false})), (Values{1, 0}));
  EXPECT_EQ(tensor({complex<float>(1, 2)}).scalar_type(), kComplexFloat);
  EXPECT_THROW(tensor({{1, 2}, {3}}), ShapeError);
}

// ---- operators and assignment

TEST(Operators, WithNumbersOnEitherSide) {
  Tensor x = tensor({1.0, 2.0, 4.0}), i = tensor({1, 2, 5});
  EXPECT_EQ(values_of(x + 1), (Values{2, 3, 5}));
  EXPECT_EQ(values_of(1 + x), (Values{2, 3, 5}));
  EXPECT_EQ(values_of(x - 1), (Values{0, 1, 3}));
  EXPECT_EQ(values_of(10 - x), (Values{9, 8, 6}));
  EXPECT_EQ(values_of(x * 2), (Values{2, 4, 8}));
  EXPECT_EQ(values_of(2 * x), (Values{2, 4, 8}));
  EXPECT_EQ(values_of(x / 2), (Values{0.5, 1, 2}));
  EXPECT_EQ(values_of(2 / x), (Values{2, 1, 0.5}));
  EXPECT_EQ(values_of(i % 3), (Values{1, 2, 2}));
  EXPECT_EQ(values_of(7 % i), (Values{0, 1, 2}));
  EXPECT_EQ(values_of(i & 4), (Values{0, 0, 4}));
  EXPECT_EQ(values_of(4 | i), (Values{5, 6, 5}));
  EXPECT_EQ(values_of(i ^ 1), (Values{0, 3, 4}));
  EXPECT_EQ(values_of(i << 2), (Values{4, 8, 20}));
  EXPECT_EQ(values_of(64 >> i), (Values{32, 16, 2}));
  EXPECT_EQ(values_of(x < 2), (Values{1, 0, 0}));
  EXPECT_EQ(values_of(2 < x), (Values{0, 0, 1}));
  EXPECT_EQ(values_of(2 <= x), (Values{0, 1, 1}));
  EXPECT_EQ(values_of(2 > x), (Values{1, 0, 0}));
  EXPECT_EQ(values_of(2 >= x), (Values{1, 1, 0}));
  EXPECT_EQ(values_of(x == 2), (Values{0, 1, 0}));
  EXPECT_EQ(values_of(2 != x), (Values{1, 0, 1}));
  EXPECT_EQ(values_of(-x), (Values{-1, -2, -4}));
  EXPECT_EQ(values_of(~i), (Values{-2, -3, -6}));
  EXPECT_EQ(values_of(x + i), (Values{2, 4, 9}));
  EXPECT_EQ((1.5 + i).scalar_type(), kFloat);
  EXPECT_EQ((2 / i).scalar_type(), kFloat);
  EXPECT_EQ(values_of(2 / i), (Values{2, 1, 2.0f / 5.0f}));
  x += 1;
  x -= tensor({1.0, 1.0, 1.0});
  x *= 3;
  x /= 2;
  EXPECT_EQ(values_of(x), (Values{1.5, 3, 6}));
  i &= tensor({3, 3, 3});
  i |= tensor({8, 0, 0});
  i ^= tensor({1, 1, 1});
  EXPECT_EQ(values_of(i), (Values{8, 3, 0}));
  EXPECT_THROW(i += 1.5, DTypeError);
}

TEST(Assignment, ThroughTemporariesWritesElements) {
  Tensor x = zeros({3, 4}), y = numbers({4});
  x[0] = y;
  x[1] = 5;
  x[2][1] = 7.5;
  x.index({2, Slice(2, None)}) = y.slice(0, 2, 4);
  EXPECT_EQ(values_of(x), (Values{0, 1, 2, 3, 5, 5, 5, 5, 0, 7.5, 2, 3}));
  x.select(1, 0) = x.select(1, 1);
  EXPECT_EQ(values_of(x.select(1, 0)), (Values{1, 5, 7.5}));
  x.index({Slice(), 3}) = -1;
  EXPECT_EQ(values_of(x.select(1, 3)), (Values{-1, -1, -1}));
  x[0] += 10;
  EXPECT_EQ(values_of(x[0]), (Values{11, 11, 12, 9}));
  x[1] = ones({}, kLong);
  EXPECT_EQ(values_of(x[1]), (Values{1, 1, 1, 1})) << "values broadcast and convert";
  EXPECT_THROW(x[0] = ones({5}), ShapeError);
  Tensor before = x[0];
  Tensor handle = x[0];
  handle = y;  // a named handle is rebound
  EXPECT_EQ(values_of(before), (Values{11, 11, 12, 9}));
  EXPECT_TRUE(handle.is_same(y));
  // What index gives with tensors is a copy: assigning to it leaves x alone, as in libtorch.
  x.index({tensor({0})}) = 99;
  EXPECT_EQ(values_of(x[0]), (Values{11, 11, 12, 9}));
  x.index_put_({tensor({0})}, 99);
  EXPECT_EQ(values_of(x[0]), (Values{99, 99, 99, 99}));
}

TEST(Borrowed, ArraysCompareAndCheckTheirRange) {
  std::vector<int64_t> v{1, 2, 3};
  IntArrayRef a(v);
  EXPECT_TRUE(a == v && v == a && a == IntArrayRef({1, 2, 3}) && a.equals({1, 2, 3}));
  EXPECT_TRUE(a != IntArrayRef({1, 2}) && a != (Shape{1, 2, 4}));
  EXPECT_EQ(a.slice(1), (Shape{2, 3}));
  EXPECT_EQ(a.slice(1, 1), (Shape{2}));
  EXPECT_EQ(a.slice(3).size(), 0u);
  EXPECT_EQ(a.at(2), 3);
  EXPECT_THROW(a.at(3), IndexError);
  EXPECT_THROW(a.slice(4), IndexError);
  EXPECT_THROW(a.slice(1, 3), IndexError);
  EXPECT_EQ(a.vec(), v);
  EXPECT_EQ(a.front() + a.back(), 4);
  std::ostringstream text;
  text << a << IntArrayRef();
  EXPECT_EQ(text.str(), "[1, 2, 3][]");
}

}  // namespace
}  // namespace facula
