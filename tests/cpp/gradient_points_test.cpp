// Gradients where differences cannot tell: at kinks, ties and zeros, and far out, where a careless formula gives NaN.
// The values are conventions, the same as in libtorch.
#include <facula/facula.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

namespace facula {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Row = std::vector<double>;
using Fn = std::function<Tensor(const std::vector<Tensor>&)>;

struct Point {
  const char* name;
  std::vector<Row> inputs;
  std::vector<Row> gradients;  // of the sum of the result
  Fn fn;
};

void PrintTo(const Point& point, std::ostream* out) { *out << point.name; }

using In = const std::vector<Tensor>&;

std::vector<Point> points() {
  return {
      {"relu", {{0, -1, 2}}, {{0, 0, 1}}, [](In x) { return relu(x[0]); }},
      {"abs", {{0, -1, 2}}, {{0, -1, 1}}, [](In x) { return abs(x[0]); }},
      {"sgn", {{0, -1, 2}}, {{0, 0, 0}}, [](In x) { return sgn(x[0]); }},
      {"sqrt", {{0, 4}}, {{kInf, 0.25}}, [](In x) { return sqrt(x[0]); }},
      {"sinc", {{0, 0.5}}, {{0, -4 / M_PI}}, [](In x) { return sinc(x[0]); }},
      {"nan_to_num", {{kNan, kInf, -kInf, 3}}, {{0, 0, 0, 1}}, [](In x) { return nan_to_num(x[0]); }},
      {"maximum", {{1, 2, 3}, {1, 5, 0}}, {{0.5, 0, 1}, {0.5, 1, 0}}, [](In x) { return maximum(x[0], x[1]); }},
      {"minimum", {{1, 2, 3}, {1, 5, 0}}, {{0.5, 1, 0}, {0.5, 0, 1}}, [](In x) { return minimum(x[0], x[1]); }},
      {"fmax", {{1, 2, kNan}, {1, kNan, 0}}, {{1, 1, 0}, {0, 0, 1}}, [](In x) { return fmax(x[0], x[1]); }},
      {"fmin", {{1, 2, kNan}, {1, kNan, 0}}, {{1, 1, 0}, {0, 0, 1}}, [](In x) { return fmin(x[0], x[1]); }},
      {"amax", {{1, 3, 3}}, {{0, 0.5, 0.5}}, [](In x) { return amax(x[0]); }},
      {"amin", {{1, 1, 3, 1}}, {{1 / 3.0, 1 / 3.0, 0, 1 / 3.0}}, [](In x) { return amin(x[0]); }},
      {"max_of_all", {{1, 3, 3}}, {{0, 0.5, 0.5}}, [](In x) { return x[0].max(); }},
      {"max_along_a_dim", {{1, 3, 3}}, {{0, 1, 0}}, [](In x) { return std::get<0>(x[0].max(0)); }},
      {"median_of_all", {{2, 2, 1, 3}}, {{0.5, 0.5, 0, 0}}, [](In x) { return x[0].median(); }},
      {"clamp_at_the_bounds", {{-1, 0, 1, 2}}, {{1, 1, 1, 0}}, [](In x) { return clamp(x[0], -1, 1); }},
      {"clamp_min", {{-1, 0, 1}}, {{0, 1, 1}}, [](In x) { return clamp_min(x[0], 0); }},
      {"hardtanh", {{-1, 0, 1, 2}}, {{0, 1, 0, 0}}, [](In x) { return hardtanh(x[0]); }},
      {"relu6", {{0, 3, 6, 7}}, {{0, 1, 0, 0}}, [](In x) { return relu6(x[0]); }},
      {"hardsigmoid", {{-3, 0, 3}}, {{0, 1 / 6.0, 0}}, [](In x) { return hardsigmoid(x[0]); }},
      {"leaky_relu", {{0, -1, 1}}, {{0.25, 0.25, 1}}, [](In x) { return leaky_relu(x[0], 0.25); }},
      {"hardshrink", {{0.5, -0.5, 0.75}}, {{0, 0, 1}}, [](In x) { return hardshrink(x[0]); }},
      {"softshrink", {{0.5, -0.5, 0.75}}, {{0, 0, 1}}, [](In x) { return softshrink(x[0]); }},
      {"threshold", {{1, 0, 2}}, {{0, 0, 1}}, [](In x) { return threshold(x[0], 1, 7); }},
      {"pow_0", {{0, 2, -2}}, {{0, 0, 0}}, [](In x) { return pow(x[0], 0); }},
      {"pow_2", {{0, 2, -2}}, {{0, 4, -4}}, [](In x) { return pow(x[0], 2); }},
      {"pow_of_zero_by_tensors", {{0, 0}, {2, 0}}, {{0, 0}, {0, 0}}, [](In x) { return pow(x[0], x[1]); }},
      {"number_to_a_power", {{2, 0}}, {{0, 0}}, [](In x) { return pow(0.0, x[0]); }},
      {"atan2_on_an_axis", {{1, 0}, {0, 2}}, {{0, 0.5}, {-1, 0}}, [](In x) { return atan2(x[0], x[1]); }},
      {"xlogy_of_zeros", {{0, 0}}, {{0, 0}}, [](In x) { return xlogy(x[0], zeros({2}, kDouble)); }},
      {"norm_2_of_zeros", {{0, 0}}, {{0, 0}}, [](In x) { return x[0].norm(); }},
      {"norm_3_of_zeros", {{0, 0}}, {{0, 0}}, [](In x) { return x[0].norm(3); }},
      {"norm_1", {{0, -2}}, {{0, -1}}, [](In x) { return x[0].norm(1); }},
      {"norm_inf", {{3, -3, 1}}, {{0.5, -0.5, 0}}, [](In x) { return x[0].norm(kInf); }},
      {"std_of_equals", {{2, 2, 2}}, {{0, 0, 0}}, [](In x) { return x[0].std(); }},
      {"nansum", {{kNan, 2}}, {{0, 1}}, [](In x) { return nansum(x[0]); }},
      {"nanmean", {{kNan, 2, 4}}, {{0, 0.5, 0.5}}, [](In x) { return nanmean(x[0]); }},
      {"prod_with_a_zero", {{2, 0, 3}}, {{0, 6, 0}}, [](In x) { return x[0].prod(); }},
      {"l1_loss", {{1, 2}, {1, 0}}, {{0, 0.5}, {0, -0.5}}, [](In x) { return l1_loss(x[0], x[1]); }},
      {"cdist_of_equals",
       {{1, 2}, {1, 2}},
       {{0, 0}, {0, 0}},
       [](In x) { return cdist(x[0].unsqueeze(0), x[1].unsqueeze(0)); }},
      {"softplus_far_out", {{1000, -1000}}, {{1, 0}}, [](In x) { return softplus(x[0]); }},
      {"log_sigmoid_far_out", {{1000, -1000}}, {{0, 1}}, [](In x) { return log_sigmoid(x[0]); }},
      {"sigmoid_far_out", {{1000, -1000}}, {{0, 0}}, [](In x) { return sigmoid(x[0]); }},
      {"silu_far_out", {{1000, -1000}}, {{1, 0}}, [](In x) { return silu(x[0]); }},
      {"mish_far_out", {{1000, -1000}}, {{1, 0}}, [](In x) { return mish(x[0]); }},
      {"gelu_far_out", {{1000, -1000}}, {{1, 0}}, [](In x) { return gelu(x[0]); }},
      {"gelu_tanh_far_out", {{1000, -1000}}, {{1, 0}}, [](In x) { return gelu(x[0], "tanh"); }},
      {"elu_far_out", {{1000, -1000}}, {{1, 0}}, [](In x) { return elu(x[0]); }},
      {"selu_far_out", {{-1000}}, {{0}}, [](In x) { return selu(x[0]); }},
      {"celu_far_out", {{1000, -1000}}, {{1, 0}}, [](In x) { return celu(x[0]); }},
      {"tanh_far_out", {{1000, -1000}}, {{0, 0}}, [](In x) { return tanh(x[0]); }},
      {"logaddexp_far_out",
       {{1000, -1000}, {-1000, 1000}},
       {{1, 0}, {0, 1}},
       [](In x) { return logaddexp(x[0], x[1]); }},
      {"logsumexp_far_out", {{1000, -1000}}, {{1, 0}}, [](In x) { return logsumexp(x[0], 0); }},
      {"log_softmax_far_out", {{1000, -1000}}, {{0, 0}}, [](In x) { return log_softmax(x[0], 0).select(0, 0); }},
      {"bce_with_logits_far_out",
       {{1000, -1000}},
       {{0.5, 0}},
       [](In x) { return binary_cross_entropy_with_logits(x[0], zeros({2}, kDouble)); }},
  };
}

class GradientPoint : public ::testing::TestWithParam<Point> {};

TEST_P(GradientPoint, IsTheConvention) {
  const Point& point = GetParam();
  std::vector<Tensor> leaves;
  for (const Row& row : point.inputs) leaves.push_back(tensor(row, kDouble).requires_grad_());
  const Tensor loss = point.fn(leaves).sum();
  const autograd::variable_list found = autograd::grad({loss}, leaves, {}, true, true, true);
  ASSERT_EQ(found.size(), point.gradients.size());
  bool finite = true;
  for (size_t i = 0; i < found.size(); ++i) {
    const Tensor& wanted = tensor(point.gradients[i], kDouble);
    const Tensor got = found[i].defined() ? found[i].detach() : zeros_like(wanted);
    EXPECT_TRUE(allclose(got, wanted, 1e-12, 1e-12)) << "input " << i << ": " << got << "\nmust be " << wanted;
    finite &= wanted.isfinite().all().item<bool>();
  }
  // A first gradient that is finite must not hide a NaN from whoever differentiates again.
  if (!finite) return;
  Tensor sum = zeros({}, kDouble);
  for (const Tensor& g : found)
    if (g.defined() && g.requires_grad()) sum = sum + g.sum();
  if (!sum.requires_grad()) return;
  for (const Tensor& second : autograd::grad({sum}, leaves, {}, std::nullopt, false, true))
    EXPECT_FALSE(second.defined() && second.isnan().any().item<bool>()) << "second derivative: " << second;
}

INSTANTIATE_TEST_SUITE_P(Points, GradientPoint, ::testing::ValuesIn(points()),
                         [](const ::testing::TestParamInfo<Point>& named) { return named.param.name; });

// Complex numbers at zero, where the direction of the steepest ascent is not defined.
TEST(GradientPointOfComplexNumbers, ZeroHasTheGradientZero) {
  for (const bool angles : {false, true}) {
    const Tensor x = zeros({2}, kComplexDouble).requires_grad_();
    const Tensor y = angles ? angle(x) : abs(x);
    const Tensor g = autograd::grad({y.sum()}, {x})[0];
    EXPECT_TRUE(equal(g, zeros({2}, kComplexDouble))) << g;
  }
  const Tensor x = zeros({2}, kComplexDouble).requires_grad_();
  EXPECT_TRUE(equal(autograd::grad({sgn(x).abs().sum()}, {x})[0], zeros({2}, kComplexDouble)));
}

}  // namespace
}  // namespace facula
