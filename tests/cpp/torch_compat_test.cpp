// Programs in the words of libtorch: its headers, its namespaces, its macros. Nothing here names Facula.
#include <ATen/ATen.h>
#include <ATen/TensorIndexing.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/util/StringUtil.h>
#include <c10/util/irange.h>
#include <torch/cuda.h>
#include <torch/special.h>
#include <torch/torch.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <iostream>
#include <limits>
#include <numeric>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using testing::HasSubstr;

static_assert(std::is_same_v<at::Tensor, torch::Tensor>);
static_assert(std::is_same_v<c10::IntArrayRef, at::IntArrayRef>);
static_assert(std::is_same_v<torch::Dtype, c10::ScalarType>);
static_assert(std::is_same_v<torch::autograd::Variable, at::Tensor>);
static_assert(torch::kFloat32 == at::kFloat);

TEST(TorchCompat, TensorTutorial) {
  torch::manual_seed(0);
  torch::Tensor data = torch::tensor({{1, 2}, {3, 4}});
  torch::Tensor x_ones = torch::ones_like(data);
  torch::Tensor x_rand = torch::rand_like(data, torch::dtype(torch::kFloat32));
  EXPECT_EQ(x_ones.dtype(), torch::kInt64);
  EXPECT_EQ(x_rand.dtype(), torch::kFloat);
  EXPECT_TRUE(x_rand.ge(0).all().item<bool>() && x_rand.lt(1).all().item<bool>());

  auto tensor = torch::ones({4, 4});
  tensor.index_put_({torch::indexing::Slice(), 1}, 0);
  auto t1 = torch::cat({tensor, tensor, tensor}, /*dim=*/1);
  EXPECT_EQ(t1.sizes(), (std::vector<int64_t>{4, 12}));
  auto y1 = tensor.matmul(tensor.t());
  EXPECT_TRUE(torch::equal(y1, torch::full({4, 4}, 3.0)));
  auto y3 = torch::empty_like(y1);
  torch::matmul_out(y3, tensor, tensor.transpose(0, 1));
  EXPECT_TRUE(torch::allclose(y1, y3));
  EXPECT_EQ(tensor.sum().item<double>(), 12);
  tensor.add_(5);
  EXPECT_EQ(tensor[0][1].item().toInt(), 5);
  for (const auto i : c10::irange(4)) EXPECT_EQ(tensor[i][0].item<float>(), 6.0f);
}

TEST(TorchCompat, FactoriesWithOptions) {
  auto options = torch::TensorOptions().dtype(torch::kFloat64).layout(torch::kStrided).device(torch::kCPU);
  auto a = torch::full({3, 4}, /*value=*/123, options);
  EXPECT_EQ(a.dtype(), torch::kDouble);
  EXPECT_EQ(a.layout(), torch::kStrided);
  EXPECT_TRUE(a.device().is_cpu());
  EXPECT_EQ(a.device().type(), torch::DeviceType::CPU);
  EXPECT_EQ(torch::ones({2}, torch::dtype(torch::kInt32).device(torch::kCPU, -1)).scalar_type(), at::kInt);
  EXPECT_EQ(torch::zeros({2}, torch::kHalf).element_size(), 2);
  EXPECT_EQ(torch::randn({2, 2}, torch::device(torch::Device("cpu"))).dim(), 2);
  EXPECT_EQ(torch::arange(1, 10, 2).sizes(), c10::IntArrayRef({5}));
  EXPECT_EQ(torch::linspace(0, 1, 5)[1].item<float>(), 0.25f);
  EXPECT_EQ(torch::eye(3).trace().item<float>(), 3);
  auto r = torch::randint(/*low=*/3, /*high=*/10, {5, 5});
  EXPECT_TRUE(((r >= 3) & (r < 10)).all().item<bool>());
  EXPECT_EQ(torch::randint(10, {2}).dtype(), torch::kLong);
  EXPECT_EQ(std::get<0>(torch::sort(torch::randperm(6)))[5].item<int64_t>(), 5);
  EXPECT_EQ(torch::empty({0}).numel(), 0);
  torch::Tensor b = torch::ones({2, 3}).to(torch::kByte);
  EXPECT_EQ(b.to(a.options()).dtype(), torch::kDouble);
  EXPECT_EQ(b.toType(torch::kFloat).dtype(), torch::kFloat);
  EXPECT_EQ(b.type_as(a).dtype(), a.dtype());
  EXPECT_EQ(torch::tensor(std::vector<double>{1, 2}, torch::kDouble).dtype(), torch::kFloat64);
  EXPECT_EQ(torch::tensor(7).dim(), 0);
}

TEST(TorchCompat, AccessorsAndBlobs) {
  float array[] = {1, 2, 3, 4, 5, 6};
  torch::Tensor t = torch::from_blob(array, {2, 3});
  auto accessor = t.accessor<float, 2>();
  float trace = 0;
  for (int i = 0; i < accessor.size(0); i++) trace += accessor[i][i];
  EXPECT_EQ(trace, 6);
  t *= 2;
  EXPECT_EQ(array[5], 12);
  int deleted = 0;
  {
    auto owned = torch::from_blob(
        array, {6}, [&](void*) { deleted++; }, torch::kFloat32);
    auto strided = torch::from_blob(array, {2, 2}, /*strides=*/{1, 3}, at::TensorOptions().dtype(at::kFloat)).clone();
    EXPECT_EQ(strided[0][1].item<float>(), 8);
  }
  EXPECT_EQ(deleted, 1);
  std::vector<int64_t> shape(t.sizes().begin(), t.sizes().end());
  EXPECT_EQ(shape, t.sizes().vec());
  EXPECT_EQ(t.data_ptr<float>(), array);
  EXPECT_EQ(t.data().data_ptr(), t.data_ptr());
  EXPECT_FALSE(t.data().is_same(t));
  std::vector<float> copied(t.data_ptr<float>(), t.data_ptr<float>() + t.numel());
  EXPECT_EQ(std::accumulate(copied.begin(), copied.end(), 0.0f), 42);
}

TEST(TorchCompat, Indexing) {
  using namespace torch::indexing;
  torch::Tensor tensor = torch::arange(24).reshape({2, 3, 4});
  EXPECT_EQ(tensor.index({None}).sizes(), torch::IntArrayRef({1, 2, 3, 4}));
  EXPECT_EQ(tensor.index({Ellipsis, 0}).sizes(), torch::IntArrayRef({2, 3}));
  EXPECT_EQ(tensor.index({"...", 0}).sizes(), torch::IntArrayRef({2, 3}));
  EXPECT_EQ(tensor.index({1, 2, 3}).item<int64_t>(), 23);
  EXPECT_EQ(tensor.index({true}).sizes(), torch::IntArrayRef({1, 2, 3, 4}));
  EXPECT_EQ(tensor.index({Slice(1, None, 2)}).sizes(), torch::IntArrayRef({1, 3, 4}));
  EXPECT_EQ(tensor.index({Slice(None, None, 2), Slice(), torch::tensor({0, 3})}).sizes(),
            torch::IntArrayRef({1, 3, 2}));
  EXPECT_EQ(tensor.index({tensor > 20}).sum().item<int64_t>(), 21 + 22 + 23);
  std::vector<TensorIndex> indices = {0, Slice(1, 3)};
  EXPECT_EQ(tensor.index(indices).sizes(), torch::IntArrayRef({2, 4}));
  tensor.index_put_({Slice(1, None), "...", 0}, 100);
  tensor.index({0, 0}) = -1;
  EXPECT_EQ(tensor[1][2][0].item<int64_t>(), 100);
  EXPECT_EQ(tensor[0][0].sum().item<int64_t>(), -4);
  tensor[0] = 1;
  EXPECT_EQ(tensor[0].sum().item<int64_t>(), 12);
  EXPECT_EQ(tensor[torch::tensor(1)].dim(), 2);
}

TEST(TorchCompat, MethodsOfTensors) {
  at::Tensor x = at::arange(6, at::kFloat).view({2, 3});
  EXPECT_EQ(x.ndimension(), 2);
  EXPECT_EQ(x.size(1), 3);
  EXPECT_EQ(x.stride(0), 3);
  EXPECT_TRUE(x.sizes() == std::vector<int64_t>({2, 3}));
  EXPECT_TRUE(x.sizes().equals({2, 3}));
  EXPECT_TRUE(x.is_cpu() && !x.is_cuda() && x.defined() && x.is_floating_point() && x.is_signed() && x.is_contiguous());
  EXPECT_EQ(x.get_device(), -1);
  EXPECT_TRUE(x.alias().is_alias_of(x));
  EXPECT_TRUE(x.allclose(x.clone()) && x.equal(x.contiguous()));
  EXPECT_EQ(x.narrow(1, 1, 2).select(0, 1).sum().item<float>(), 9);
  EXPECT_EQ(x.chunk(3, 1).size(), 3u);
  EXPECT_EQ(x.split_with_sizes({1, 2}, 1)[1].size(1), 2);
  EXPECT_EQ(x.expand({2, 2, 3}).repeat({1, 1, 2}).sizes(), at::IntArrayRef({2, 2, 6}));
  EXPECT_EQ(x.unsqueeze(0).squeeze(0).permute({1, 0}).sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(x.view_as(at::empty({3, 2})).sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(x.argmax().item<int64_t>(), 5);
  EXPECT_EQ(x.flatten().as_strided({2}, {3})[1].item<float>(), 3);
  EXPECT_EQ(x.index_select(1, at::tensor({2})).sum().item<float>(), 7);
  EXPECT_EQ(x.gather(1, at::zeros({2, 1}, at::kLong)).sum().item<float>(), 3);
  EXPECT_EQ(x.masked_fill(x > 2, 0).sum().item<float>(), 3);
  EXPECT_NEAR(x.std().item<double>(), std::sqrt(3.5), 1e-6);
  EXPECT_NEAR(x.var(/*unbiased=*/false).item<double>(), 35.0 / 12, 1e-6);
  EXPECT_NEAR(x.norm().item<double>(), std::sqrt(55.0), 1e-6);
  EXPECT_EQ(x.clamp(1, 4).sum().item<float>(), 1 + 1 + 2 + 3 + 4 + 4);
  EXPECT_EQ(x.clamp_min(2).min().item<float>(), 2);
  EXPECT_EQ(x.pow(2).sum().item<float>(), 55);
  EXPECT_EQ(x.sub(2.5).sign().sum().item<float>(), 0);
  EXPECT_NEAR(x.softmax(1).sum().item<double>(), 2, 1e-6);
  EXPECT_NEAR(x.log_softmax(-1).exp().sum().item<double>(), 2, 1e-6);
  at::Tensor y = x.clone();
  y.mul_(2).div_(4).add_(x, /*alpha=*/2);
  EXPECT_EQ(y[1][2].item<float>(), 12.5f);
  y.copy_(x).zero_().fill_(3).masked_fill_(x == 0, -1).tanh_();
  EXPECT_NEAR(y[0][0].item<double>(), std::tanh(-1.0), 1e-6);
  y.random_(0, 5);
  EXPECT_TRUE((y < 5).all().item<bool>());
  y.normal_(10, 0.001).uniform_(2, 3);
  EXPECT_TRUE(((y >= 2) & (y < 3)).all().item<bool>());
  EXPECT_EQ(x.t().multinomial(1).sizes(), at::IntArrayRef({3, 1}));
  y.transpose_(0, 1);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(x._version(), 0);
  EXPECT_EQ(x.storage().nbytes(), 24u);
  y.resize_({4});
  EXPECT_EQ(y.numel(), 4);
}

TEST(TorchCompat, FunctionsOfTheNamespace) {
  auto x = torch::tensor({1.0, 4.0, 9.0}, torch::kDouble);
  EXPECT_EQ(torch::sqrt(x).sum().item<double>(), 6);
  EXPECT_EQ(torch::pow(x, 2).sum().item<double>(), 98);
  EXPECT_NEAR(torch::exp(torch::log(x)).sum().item<double>(), 14, 1e-12);
  EXPECT_EQ(torch::stack({x, x}).sizes(), torch::IntArrayRef({2, 3}));
  EXPECT_EQ(std::get<0>(torch::max(x, 0)).item<double>(), 9);
  EXPECT_EQ(torch::max(x).item<double>(), 9);
  EXPECT_EQ(torch::mean(x).item<double>(), 14.0 / 3);
  auto [variance, mean] = torch::var_mean(x);
  EXPECT_NEAR(variance.item<double>(), 49.0 / 3, 1e-9);
  EXPECT_EQ(mean.item<double>(), 14.0 / 3);
  EXPECT_EQ(torch::flip(x, {0})[0].item<double>(), 9);
  EXPECT_TRUE(torch::isnan(torch::tensor({std::nan("")})).item<bool>());
  EXPECT_TRUE(torch::isinf(torch::tensor({INFINITY})).item<bool>());
  EXPECT_TRUE(torch::isfinite(x).all().item<bool>());
  EXPECT_EQ(torch::addmm(torch::ones({2, 2}), torch::eye(2), torch::eye(2)).sum().item<float>(), 6);
  EXPECT_EQ(torch::where(x > 2, x, torch::zeros_like(x)).sum().item<double>(), 13);
  EXPECT_EQ(torch::einsum("i,i->", {x, x}).item<double>(), 98);
  EXPECT_EQ(std::get<1>(torch::topk(x, 1)).item<int64_t>(), 2);
  EXPECT_EQ(torch::cumsum(x, 0)[2].item<double>(), 14);
  EXPECT_EQ(torch::one_hot(torch::tensor({0, 2}), 3).sum().item<int64_t>(), 2);
  EXPECT_EQ(torch::masked_select(x, x > 2).numel(), 2);
  EXPECT_EQ(torch::meshgrid({x, x}, "ij")[0].sizes(), torch::IntArrayRef({3, 3}));
  EXPECT_EQ(torch::searchsorted(x, torch::tensor({5.0}, torch::kDouble)).item<int64_t>(), 2);
  EXPECT_EQ(torch::cdist(torch::zeros({1, 2}), torch::ones({1, 2}) * 3).item<float>(), std::sqrt(18.0f));
  EXPECT_EQ(torch::lerp(x, x * 2, 0.5).sum().item<double>(), 21);
  EXPECT_EQ(torch::constant_pad_nd(x, {1, 1}, 5).sum().item<double>(), 24);
  EXPECT_EQ(torch::view_as_real(torch::view_as_complex(torch::ones({2, 2}))).sum().item<float>(), 4);
  EXPECT_NEAR(torch::mse_loss(x, x + 2).item<double>(), 4, 1e-12);
  EXPECT_NEAR(torch::special::gammaln(torch::tensor({5.0}, torch::kDouble)).item<double>(), std::log(24.0), 1e-12);
  EXPECT_NEAR(torch::special::expit(torch::zeros({1})).item<double>(), 0.5, 1e-7);
  EXPECT_FALSE(torch::cuda::is_available());
  EXPECT_EQ(torch::cuda::device_count(), 0);
  torch::Device device = torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;
  EXPECT_TRUE(x.to(device).is_same(x));
  int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  EXPECT_EQ(at::get_num_threads(), 1);
  torch::set_num_threads(threads);
}

TEST(TorchCompat, DefaultDtypeAndTypeMeta) {
  EXPECT_EQ(torch::typeMetaToScalarType(torch::get_default_dtype()), torch::kFloat);
  torch::set_default_dtype(torch::scalarTypeToTypeMeta(torch::kDouble));
  EXPECT_EQ(torch::ones({1}).dtype(), torch::kDouble);
  torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
  caffe2::TypeMeta meta = torch::ones({1}).dtype();
  EXPECT_TRUE(meta == torch::kFloat && meta.Match<float>() && torch::kFloat == meta);
  EXPECT_EQ(meta.itemsize(), 4u);
  EXPECT_EQ(c10::elementSize(at::kComplexDouble), 16u);
  EXPECT_STREQ(c10::toString(at::kBFloat16), "BFloat16");
  EXPECT_EQ(c10::promoteTypes(at::kInt, at::kHalf), at::kHalf);
  EXPECT_TRUE(c10::isFloatingType(at::kHalf) && c10::isIntegralType(at::kBool, /*includeBool=*/true));
}

TEST(TorchCompat, NumbersOfOtherKinds) {
  c10::complex<float> z(1, 2);
  torch::Tensor t = torch::full({2}, z, torch::kComplexFloat);
  EXPECT_EQ(t[0].item<c10::complex<float>>(), z);
  EXPECT_EQ(torch::real(t).sum().item<float>(), 2);
  EXPECT_EQ(t.mul(t)[1].item<c10::complex<double>>(), c10::complex<double>(-3, 4));
  EXPECT_EQ(static_cast<float>(c10::Half(1.5f)), 1.5f);
  EXPECT_EQ(static_cast<float>(torch::ones({1}, torch::kBFloat16).item<c10::BFloat16>()), 1);
  at::Scalar s = 3.5;
  EXPECT_TRUE(s.isFloatingPoint());
  EXPECT_EQ(s.to<int>(), 3);
  EXPECT_EQ(s.toDouble(), 3.5);
  c10::optional<int64_t> none = c10::nullopt;
  EXPECT_FALSE(none.has_value());
  EXPECT_EQ(c10::make_optional(3).value(), 3);
}

// ---- checks, warnings, text

struct Printable {
  int value;
  friend std::ostream& operator<<(std::ostream& out, const Printable& p) { return out << '<' << p.value << '>'; }
};

TEST(TorchCompat, ChecksRaise) {
  auto fails = [](int n) {
    TORCH_CHECK(n > 3, "n must be above 3, got ", n, " of ", Printable{7}, ' ', at::IntArrayRef({1, 2}));
  };
  fails(4);
  try {
    fails(2);
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_STREQ(e.what_without_backtrace(), "n must be above 3, got 2 of <7> [1, 2]");
    EXPECT_THAT(e.what(), HasSubstr("above 3"));
    EXPECT_THAT(e.msg(), HasSubstr("above 3"));
  }
  try {
    TORCH_CHECK(1 == 2);
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), HasSubstr("Expected 1 == 2 to be true"));
  }
  EXPECT_THROW(TORCH_CHECK_INDEX(false, "index"), c10::IndexError);
  EXPECT_THROW(TORCH_CHECK_VALUE(false, "value"), c10::ValueError);
  EXPECT_THROW(TORCH_CHECK_TYPE(false, "type"), c10::TypeError);
  EXPECT_THROW(TORCH_CHECK_NOT_IMPLEMENTED(false, "later"), c10::NotImplementedError);
  EXPECT_THROW(AT_ERROR("error ", 1), c10::Error);
  try {
    TORCH_INTERNAL_ASSERT(2 < 1, "because ", 5);
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("2 < 1 INTERNAL ASSERT FAILED at "));
    EXPECT_THAT(e.what(), HasSubstr("because 5"));
  }
  TORCH_INTERNAL_ASSERT(true);
  EXPECT_THROW(torch::ones({2}) + torch::ones({3}), c10::Error);
}

class Recorder : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { messages.push_back(warning.msg()); }
  std::vector<std::string> messages;
};

TEST(TorchCompat, WarningsGoToTheHandler) {
  Recorder recorder;
  c10::WarningHandler* before = c10::WarningUtils::get_warning_handler();
  {
    c10::WarningUtils::WarningHandlerGuard guard(&recorder);
    TORCH_WARN("a number: ", 5);
    for (int i = 0; i < 3; ++i) TORCH_WARN_ONCE("once");
    for (int i = 0; i < 2; ++i) TORCH_WARN("twice");
  }
  EXPECT_EQ(recorder.messages, (std::vector<std::string>{"a number: 5", "once", "twice", "twice"}));
  EXPECT_EQ(c10::WarningUtils::get_warning_handler(), before);
  testing::internal::CaptureStderr();
  TORCH_WARN("printed");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("Warning: printed"));
}

TEST(TorchCompat, Text) {
  EXPECT_EQ(c10::str("a", 1, ' ', 2.5, true, Printable{3}, at::kFloat, torch::Device("cuda:1")),
            "a1 2.5true<3>Floatcuda:1");
  EXPECT_EQ(c10::Join(", ", std::vector<int>{1, 2, 3}), "1, 2, 3");
  EXPECT_EQ(c10::Join("x", std::vector<std::string>{}), "");
  std::ostringstream out;
  out << torch::tensor({1, 2}) << '\n'
      << torch::ones({2, 2}).sizes() << ' ' << torch::kFloat << ' ' << torch::Device(torch::kCPU);
  EXPECT_EQ(out.str(), " 1\n 2\n[ CPULongType{2} ]\n[2, 2] Float cpu");
}

TEST(TorchCompat, Ranges) {
  std::vector<int> seen;
  for (auto i : c10::irange(3)) seen.push_back(i);
  for (auto i : c10::irange(5, 7)) seen.push_back(i);
  for (auto i : c10::irange(5, 2)) seen.push_back(i);
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 5, 6}));
  size_t total = 0;
  for (size_t i : c10::irange(std::vector<int>{1, 2, 3}.size())) total += i;
  EXPECT_EQ(total, 3u);
  static_assert(std::is_same_v<decltype(*c10::irange(size_t{3}).begin()), size_t>);
  static_assert(std::is_same_v<decltype(*c10::irange(1, int64_t{3}).begin()), int64_t>);
}

// ---- complex(a, b): a class template of numbers and a function of tensors have that name

TEST(TorchCompat, ComplexOfTensorsPrintsAsATensor) {
  std::ostringstream direct, plain;
  direct << torch::complex(torch::ones({2}), torch::zeros({2}));
  const torch::Tensor made = torch::complex(torch::ones({2}), torch::zeros({2}));
  plain << made;
  EXPECT_EQ(direct.str(), plain.str());
  EXPECT_THAT(direct.str(), HasSubstr("CPUComplexFloatType{2}"));
}

// ---- dispatch on dtypes: <torch/torch.h> and <ATen/ATen.h> bring it along

double sum_by_hand(const at::Tensor& t) {
  return AT_DISPATCH_ALL_TYPES_AND2(at::ScalarType::Half, at::ScalarType::Bool, t.scalar_type(), "sum_by_hand", [&] {
    double total = 0;
    const scalar_t* p = t.data_ptr<scalar_t>();
    for (const auto i : c10::irange(t.numel())) total += static_cast<double>(p[i]);
    return total;
  });
}

TEST(TorchCompat, DispatchOnDtypes) {
  for (auto type : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kFloat, at::kDouble, at::kHalf})
    EXPECT_EQ(sum_by_hand(at::arange(5).to(type)), 10) << type;
  EXPECT_EQ(sum_by_hand(at::ones({3}, at::kBool)), 3);
  try {
    sum_by_hand(at::ones({3}, at::kComplexFloat));
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_STREQ(e.what_without_backtrace(), "\"sum_by_hand\" not implemented for 'ComplexFloat'");
  }
  size_t bytes = 0;
  AT_DISPATCH_FLOATING_TYPES(at::kDouble, "bytes", [&] { bytes = sizeof(scalar_t); });
  EXPECT_EQ(bytes, 8u);
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(at::kComplexFloat, "bytes", ([&] { bytes = sizeof(scalar_t); }));
  EXPECT_EQ(bytes, 8u);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(at::kHalf, "bytes", [&] { bytes = sizeof(scalar_t); });
  EXPECT_EQ(bytes, 2u);
  EXPECT_THROW(AT_DISPATCH_INTEGRAL_TYPES(at::kFloat, "bytes", [&] { bytes = sizeof(scalar_t); }), c10::Error);
}

// A small program: least squares by gradient descent, gradients by hand.
TEST(TorchCompat, ASmallProgram) {
  torch::manual_seed(1);
  torch::Tensor w_true = torch::tensor({2.0, -3.0, 0.5}).view({3, 1});
  torch::Tensor x = torch::randn({256, 3}), y = x.mm(w_true) + 1.0;
  torch::Tensor w = torch::zeros({3, 1}), b = torch::zeros({1});
  double loss = 0;
  for (int step = 0; step < 300; ++step) {
    torch::Tensor error = torch::addmm(b, x, w) - y;
    loss = error.pow(2).mean().item<double>();
    w -= 0.1 * (2.0 / 256) * x.t().matmul(error);
    b -= 0.1 * 2 * error.mean();
  }
  EXPECT_LT(loss, 1e-6);
  EXPECT_TRUE(torch::allclose(w, w_true, 1e-3, 1e-3));
  EXPECT_NEAR(b.item<float>(), 1.0, 1e-3);
}

}  // namespace
