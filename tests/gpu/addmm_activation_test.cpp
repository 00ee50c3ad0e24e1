// Products with a bias and an activation in one call of a library, against the same by parts in double precision on the
// CPU: values and gradients, with the library and without, and where the library refuses.
#include "closeness.h"
#include "device_memory.h"
#include "error_text.h"
#include "libraries.h"

#include <facula/cuda.h>

#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace facula::testing {
namespace {

using ::testing::HasSubstr;

int launches() { return control() ? std::atoi(control()("count launch")) : 0; }

Tensor by_parts(const Tensor& self, const Tensor& a, const Tensor& b, double beta, double alpha, bool use_gelu) {
  const Tensor sum = addmm(self, a, b, beta, alpha);
  return use_gelu ? gelu(sum, "tanh") : relu(sum);
}

Tensor leaf(const Tensor& t) { return t.detach().clone().requires_grad_(); }

struct Sum {
  int64_t m, n, k;
  enum Addend { Row, RowOfTwoDims, Full, Missing } addend = Row;
  double beta = 1, alpha = 1;
  bool turned = false;  // mat2 lies by columns, as a layer's weight does
};

class GpuAddmmActivation : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(test_seed()); }

  static Tensor addend(const Sum& s) {
    switch (s.addend) {
      case Sum::Full: return randn({s.m, s.n});
      case Sum::RowOfTwoDims: return randn({1, s.n});
      case Sum::Missing: return full({s.n}, NAN);
      default: return randn({s.n});
    }
  }

  // Values of the result and, if asked for, gradients of everything.
  static void compare(const Sum& s, ScalarType t, bool use_gelu, bool learns) {
    const Tensor self = addend(s).to(t), a = (randn({s.m, s.k}) / std::sqrt(static_cast<double>(s.k))).to(t),
                 w = randn(s.turned ? IntArrayRef({s.n, s.k}) : IntArrayRef({s.k, s.n})).to(t),
                 g = randn({s.m, s.n}).to(t);
    const std::string what = words(use_gelu ? "gelu" : "relu", t, {s.m, s.n, s.k}, s.addend) +
                             (gpu::allow_blas() ? ", library" : ", our own") + (learns ? ", learning" : "");
    std::vector<Tensor> truth, got;
    for (const Tensor& x : {self, a, w}) {
      truth.push_back(learns ? leaf(x.to(kDouble)) : x.to(kDouble));
      got.push_back(learns ? leaf(x.to(kGpu)) : x.to(kGpu));
    }
    const auto second = [&](const Tensor& x) { return s.turned ? x.t() : x; };
    const Tensor want = by_parts(truth[0], truth[1], second(truth[2]), s.beta, s.alpha, use_gelu);
    const Tensor result = _addmm_activation(got[0], got[1], second(got[2]), s.beta, s.alpha, use_gelu);
    expect_close(result.detach(), want.detach().to(t), what, 2);
    EXPECT_EQ(result.requires_grad(), learns);
    if (!learns) return;
    // Where rounding decides on which side of the kink a sum lies, nothing is asked.
    const Tensor clear =
        use_gelu ? g : g * (addmm(truth[0], truth[1], second(truth[2]), s.beta, s.alpha).abs() > 0.05).to(t);
    want.backward(clear.to(kDouble));
    result.backward(clear.to(kGpu));
    const std::string names[] = {"self", "mat1", "mat2"};
    for (size_t i = s.addend == Sum::Missing ? 1 : 0; i < 3; ++i) {
      // Sums of products of rounded slopes.
      const double scale = 4 * std::sqrt(static_cast<double>(std::max(s.m, s.n)));
      expect_close(got[i].grad(), truth[i].grad().to(t), what + ", gradient of " + names[i], scale);
    }
  }
};

TEST_F(GpuAddmmActivation, AgreesWithItsParts) {
  const Sum sums[] = {{16, 24, 32},
                      {33, 40, 17, Sum::Row, 1, 1, true},
                      {20, 64, 48, Sum::RowOfTwoDims, 1, -0.5, true},
                      {12, 16, 24, Sum::Missing, 0, 1},
                      {9, 21, 10},  // columns that are no multiple of eight
                      {9, 16, 11, Sum::Full},
                      {9, 16, 11, Sum::Row, 2, 1},
                      {1, 16, 8},
                      {16, 1, 8}};
  for (const auto& [library, small] : kWaysOfProducts) {
    const BlasScope scope(library, small);
    for (const Sum& s : sums)
      for (const ScalarType t : {kFloat, kBFloat16, kHalf, kDouble})
        for (const bool use_gelu : {false, true})
          for (const bool learns : {false, true}) compare(s, t, use_gelu, learns);
  }
}

TEST_F(GpuAddmmActivation, EmptySums) {
  const Tensor bias = randn({5});
  for (const bool use_gelu : {false, true}) {
    const Tensor sum = bias.expand({3, 5}), want = use_gelu ? gelu(sum, "tanh") : relu(sum);
    expect_close(_addmm_activation(bias.to(kGpu), empty({3, 0}).to(kGpu), empty({0, 5}).to(kGpu), 1, 1, use_gelu),
                 want.contiguous(), "a sum of nothing");
    EXPECT_EQ(_addmm_activation(bias.to(kGpu), empty({0, 4}).to(kGpu), empty({4, 5}).to(kGpu), 1, 1, use_gelu).numel(),
              0);
  }
}

// The light libraries of the software GPU have these epilogues for float and narrower.
TEST_F(GpuAddmmActivation, IsOneCallOfTheLibrary) {
  if (!control() || !gpu::blas() || gpu::blas()->name().find("Lt") == std::string::npos)
    GTEST_SKIP() << "no light library on the software GPU";
  const BlasScope with_library(true);
  const auto calls = [&](ScalarType t, int64_t n, bool use_gelu, bool learns) {
    const Tensor bias = randn({n}).to(t).to(kGpu), a = randn({16, 32}).to(t).to(kGpu);
    Tensor w = randn({n, 32}).to(t).to(kGpu);
    if (learns) w.requires_grad_();
    const int products = library_calls(), others = launches();
    _addmm_activation(bias, a, w.t(), 1, 1, use_gelu);
    return std::pair(library_calls() - products, launches() - others);
  };
  const std::pair once(1, 0), product_and_activation(1, 1);
  for (const ScalarType t : {kFloat, kBFloat16, kHalf})
    for (const bool learns : {false, true}) {
      EXPECT_EQ(calls(t, 24, false, learns), once);
      EXPECT_EQ(calls(t, 24, true, learns), once);
    }
  EXPECT_EQ(calls(kBFloat16, 20, true, false), once);
  // It keeps what gelu was given only in whole groups of eight, and has no double.
  EXPECT_EQ(calls(kBFloat16, 20, true, true), product_and_activation);
  for (int again = 0; again < 2; ++again) EXPECT_EQ(calls(kDouble, 24, true, false), product_and_activation);
  const BlasScope scope(false);
  EXPECT_EQ(calls(kBFloat16, 24, true, false), std::pair(0, 2));
}

TEST_F(GpuAddmmActivation, KeepsTheSumOnlyWhereSomebodyLearns) {
  const Tensor bias = randn({512}).to(kGpu), a = randn({256, 32}).to(kGpu), w = leaf(randn({32, 512})).to(kGpu);
  EXPECT_EQ(_addmm_activation(bias, a, w, 1, 1, true).grad_fn()->name(), "AddmmGeluBackward0");
  EXPECT_EQ(_addmm_activation(bias, a, w).grad_fn()->name(), "AddmmReluBackward0");
  const auto held = [&] {
    const auto before = cuda::memory_allocated();
    const Tensor y = _addmm_activation(bias, a, w, 1, 1, true);
    return cuda::memory_allocated() - before;
  };
  const auto learning = held();
  const NoGradGuard guard;
  EXPECT_EQ(learning, 2 * held());
}

// A view has the tangent that its base gets later.
TEST_F(GpuAddmmActivation, TangentsOfViews) {
  for (const Device device : {Device(kCPU), kGpu}) {
    const Tensor bias = randn({8}).to(device), a = randn({4, 6}).to(device), p = randn({8, 6}).to(device),
                 t = randn({8, 6}).to(device);
    autograd::DualLevel level;
    Tensor w = zeros({8, 6}).to(device);
    const Tensor view = w.t();
    w.copy_(level.make_dual(p, t));
    const Tensor want = level.unpack_dual(by_parts(bias, a, view, 1, 1, true)).second,
                 have = level.unpack_dual(_addmm_activation(bias, a, view, 1, 1, true)).second;
    ASSERT_TRUE(want.defined());
    ASSERT_TRUE(have.defined());
    expect_close(have, want.cpu(), "tangent");
  }
}

TEST_F(GpuAddmmActivation, SecondGradients) {
  const Tensor bias = randn({8}) / 2, a = randn({4, 6}) / 3, b = randn({6, 8}) / 3;
  std::vector<Tensor> truth, got;
  for (const Tensor& x : {bias, a, b}) {
    truth.push_back(leaf(x.to(kDouble)));
    got.push_back(leaf(x.to(kGpu)));
  }
  const auto twice = [](const std::vector<Tensor>& x, const Tensor& y) {
    const auto once = autograd::grad({y.square().sum()}, {x[0], x[1], x[2]}, {}, true, true);
    return autograd::grad({once[0].square().sum() + once[1].square().sum() + once[2].square().sum()},
                          {x[0], x[1], x[2]});
  };
  const auto want = twice(truth, by_parts(truth[0], truth[1], truth[2], 1, 1, true));
  const auto have = twice(got, _addmm_activation(got[0], got[1], got[2], 1, 1, true));
  for (size_t i = 0; i < 3; ++i) expect_close(have[i], want[i].to(kFloat), "second gradient", 10);
}

TEST_F(GpuAddmmActivation, RefusesWhatAddmmRefuses) {
  const Tensor bias = randn({8}).to(kGpu), a = randn({4, 6}).to(kGpu), b = randn({6, 8}).to(kGpu);
  EXPECT_THAT(error_of<ShapeError>([&] { _addmm_activation(bias, a, a); }), HasSubstr("cannot be multiplied"));
  EXPECT_THAT(error_of<ShapeError>([&] { _addmm_activation(a, a, b); }), HasSubstr("_addmm_activation"));
  EXPECT_THAT(error_of<DTypeError>([&] { _addmm_activation(bias.to(kHalf), a, b); }), HasSubstr("same dtype"));
  EXPECT_THROW(_addmm_activation(bias.cpu(), a, b), DeviceError);
}

// Newer HIP has a light library with the same epilogues; rocBLAS, which is asked next, has none.
TEST_F(GpuAddmmActivation, LightLibraryOfNewerHip) {
  if (gpu::driver()->vendor() != gpu::Vendor::Hip || !control()) GTEST_SKIP() << "not the software GPU's HIP";
  std::string why_not;
  const std::unique_ptr<gpu::Blas> both = gpu::find_blas_hip(60000000, why_not);
  if (!both) GTEST_SKIP() << why_not;
  gpu::enter(0);
  const int64_t n = 16;
  const std::vector<float> values(static_cast<size_t>(n * n), 0.25f), zeros(values.size());
  const size_t bytes = values.size() * sizeof(float);
  DeviceMemory a(values.data(), bytes), bias(values.data(), bytes), d(zeros.data(), bytes), before(zeros.data(), bytes);
  gpu::BlasProblem p;
  p.m = p.n = p.k = p.lda = p.ldb = p.ldd = n;
  p.a = p.b = a.data();
  p.d = d.data();
  p.bias = bias.data();
  p.activation = gpu::Activation::GeluTanh;
  p.before = before.data();
  ASSERT_TRUE(both->matmul(p, gpu::current_stream(0), "mm"));
  const auto last = [](const DeviceMemory& memory) {
    const std::vector<char> back = memory.bytes();
    return reinterpret_cast<const float*>(back.data())[back.size() / sizeof(float) - 1];
  };
  EXPECT_EQ(last(before), 1.25f);  // 16 / 16 + 1 / 4
  EXPECT_NEAR(last(d), 0.5 * 1.25 * (1 + std::tanh(std::sqrt(2 / M_PI) * (1.25 + 0.044715 * std::pow(1.25, 3)))), 1e-6);
  p.ldd = n + 1;
  EXPECT_FALSE(both->matmul(p, gpu::current_stream(0), "mm"));
}

}  // namespace
}  // namespace facula::testing
