// Softmax, normalisations, losses and distances against plain loops in double; fused kernels against their composites; errors.
#include <facula/facula.h>
#include <facula/reduction.h>

#include "core/kernel_table.h"
#include "cpp/seed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

namespace facula {
namespace {

constexpr ScalarType kFloats[] = {kFloat, kDouble, kHalf, kBFloat16};

// Relative error that one rounding of the result and the sums before it may cost.
double tolerance(ScalarType t) {
  switch (t) {
    case kHalf: return 2e-3;
    case kBFloat16: return 1.6e-2;
    case kFloat: return 4e-6;
    default: return 1e-13;
  }
}

class NnOps : public testing::Test {
 protected:
  void SetUp() override { generator.seed(facula_test::test_seed()); }
  static std::string trace() { return facula_test::seed_text(); }

  // Values that the dtype holds exactly.
  Tensor draw(std::vector<int64_t> sizes, ScalarType dtype, double low = -3, double high = 3) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    std::uniform_real_distribution<double> uniform(low, high);
    std::vector<double> values(static_cast<size_t>(n));
    for (double& v : values) v = uniform(generator);
    return from_blob(values.data(), sizes, TensorOptions().dtype(kDouble)).to(dtype, false, true);
  }

  std::mt19937_64 generator;
};

std::vector<double> numbers(const Tensor& t) {
  const Tensor d = t.to(kDouble).contiguous();
  return {d.data_ptr<double>(), d.data_ptr<double>() + d.numel()};
}

void expect_close(const Tensor& got, const std::vector<double>& wanted, double rtol, double atol) {
  const std::vector<double> values = numbers(got);
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(wanted[i])) {
      ASSERT_TRUE(std::isnan(values[i])) << "entry " << i << " is " << values[i];
    } else if (std::isinf(wanted[i])) {
      ASSERT_EQ(values[i], wanted[i]) << "entry " << i;
    } else {
      ASSERT_NEAR(values[i], wanted[i], atol + rtol * std::abs(wanted[i])) << "entry " << i;
    }
  }
}

std::vector<double> softmax_reference(const Tensor& x, int64_t dim, bool log) {
  const std::vector<double> in = numbers(x);
  std::vector<double> out(in.size());
  int64_t outer = 1, n = 1, inner = 1;
  for (int64_t d = 0; d < x.dim(); ++d) (d < dim ? outer : d == dim ? n : inner) *= x.size(d);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t c = 0; c < inner; ++c) {
      auto at = [&](int64_t i) { return static_cast<size_t>((o * n + i) * inner + c); };
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t i = 0; i < n; ++i)
        top = std::isnan(in[at(i)]) || std::isnan(top) ? std::nan("") : std::max(top, in[at(i)]);
      for (int64_t i = 0; i < n; ++i) sum += std::exp(in[at(i)] - top);
      for (int64_t i = 0; i < n; ++i)
        out[at(i)] = log ? in[at(i)] - top - std::log(sum) : std::exp(in[at(i)] - top) / sum;
    }
  }
  return out;
}

void expect_softmax(const Tensor& x, int64_t dim) {
  const double rtol = tolerance(x.scalar_type());
  expect_close(softmax(x, dim), softmax_reference(x, dim, false), rtol, x.scalar_type() == kHalf ? 1e-7 : 1e-37);
  expect_close(log_softmax(x, dim), softmax_reference(x, dim, true), rtol, rtol);
}

// Takes a kernel out of the table for the length of a scope.
class WithoutKernel {
 public:
  explicit WithoutKernel(OpId op) : entry_(detail::kernel_entry(op, DeviceType::CPU)), saved_(entry_) { entry_ = {}; }
  WithoutKernel(const WithoutKernel&) = delete;
  ~WithoutKernel() { entry_ = saved_; }

 private:
  detail::KernelEntry& entry_;
  detail::KernelEntry saved_;
};

class WithThreads {
 public:
  explicit WithThreads(int n) : saved_(get_num_threads()) { set_num_threads(n); }
  ~WithThreads() { set_num_threads(saved_); }

 private:
  int saved_;
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

TEST_F(NnOps, SoftmaxOfRowsOfEveryLength) {
  SCOPED_TRACE(trace());
  for (ScalarType t : kFloats)
    for (int64_t n : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, 1000, 4097}) {
      SCOPED_TRACE(str(toString(t), " ", n));
      expect_softmax(draw({3, n}, t, -20, 20), 1);
    }
}

TEST_F(NnOps, SoftmaxAlongOtherDims) {
  SCOPED_TRACE(trace());
  for (ScalarType t : kFloats)
    for (int64_t inner : {1, 2, 5, 15, 16, 17, 37, 64, 300})
      for (int64_t n : {1, 5, 33, 70}) {
        SCOPED_TRACE(str(toString(t), " ", n, " x ", inner));
        expect_softmax(draw({2, n, inner}, t, -20, 20), 1);
        expect_softmax(draw({n, inner}, t, -20, 20), 0);
      }
}

TEST_F(NnOps, SoftmaxOfLongRows) {
  SCOPED_TRACE(trace());
  for (ScalarType t : {kFloat, kDouble, kBFloat16}) expect_softmax(draw({2, (1 << 17) + 77}, t, -5, 5), 1);
}

TEST_F(NnOps, SoftmaxOfStridedTensors) {
  SCOPED_TRACE(trace());
  const Tensor x = draw({6, 20, 10}, kFloat);
  expect_softmax(x.transpose(0, 2), 1);
  expect_softmax(x.slice(1, 1, 20, 3), 1);
  expect_softmax(x.select(2, 3), 0);
}

TEST_F(NnOps, SoftmaxOfInfinitiesAndNan) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<std::vector<double>> rows = {
      {1, -inf, 2}, {-inf, -inf, -inf}, {inf, 1, 2}, {nan, 1, 2}, {1e30, -1e30, 0}};
  for (int64_t width : {3, 70, (1 << 17) + 3}) {
    for (const auto& row : rows) {
      std::vector<double> v(static_cast<size_t>(width), row[1]);
      v.front() = row[0];
      v.back() = row[2];
      SCOPED_TRACE(str(width, ": ", row[0], " ", row[1], " ", row[2]));
      const Tensor x = from_blob(v.data(), {width}, TensorOptions().dtype(kDouble)).to(kFloat);
      expect_softmax(x, 0);
      expect_softmax(x.unsqueeze(1).expand({width, 17}).contiguous(), 0);
    }
  }
}

TEST_F(NnOps, SoftmaxOfNothingAndOfNumbers) {
  EXPECT_EQ(softmax(empty({0, 4}), 1).sizes(), IntArrayRef({0, 4}));
  EXPECT_EQ(softmax(empty({4, 0}), 1).sizes(), IntArrayRef({4, 0}));
  EXPECT_EQ(softmax(tensor(3.0f), 0).item<float>(), 1.0f);
  EXPECT_EQ(log_softmax(tensor(3.0f), -1).item<float>(), 0.0f);
  const Tensor meta = softmax(empty({2, 3}, TensorOptions().dtype(kHalf).device(kMeta)), 1, kFloat);
  EXPECT_TRUE(meta.is_meta());
  EXPECT_EQ(meta.scalar_type(), kFloat);
}

TEST_F(NnOps, SoftmaxCastsFirst) {
  SCOPED_TRACE(trace());
  for (ScalarType from : {kFloat, kDouble, kHalf, kBFloat16, kInt, kBool})
    for (ScalarType to : kFloats) {
      SCOPED_TRACE(str(toString(from), " to ", toString(to)));
      const Tensor x = draw({5, 70}, kDouble).to(from);
      EXPECT_TRUE(same_bits(softmax(x, 1, to), softmax(x.to(to), 1)));
      EXPECT_TRUE(same_bits(softmax(x, 0, to), softmax(x.to(to), 0)));
    }
  EXPECT_THROW(softmax(ones({3}, kLong), 0), DTypeError);
  EXPECT_THROW(softmax(ones({3}), 1), IndexError);
  EXPECT_THROW(softmax(Tensor(), 0), ValueError);
}

TEST_F(NnOps, SoftmaxCompositeAgrees) {
  SCOPED_TRACE(trace());
  for (ScalarType t : kFloats)
    for (int64_t dim : {0, 1, 2}) {
      const Tensor x = draw({4, 20, 33}, t);
      const Tensor fused = softmax(x, dim), fused_log = log_softmax(x, dim);
      const WithoutKernel a(OpId::softmax), b(OpId::log_softmax);
      expect_close(fused, numbers(softmax(x, dim)), tolerance(t), tolerance(t));
      expect_close(fused_log, numbers(log_softmax(x, dim)), tolerance(t), tolerance(t));
    }
}

TEST_F(NnOps, ResultsDoNotDependOnThreads) {
  SCOPED_TRACE(trace());
  const std::vector<std::function<Tensor(const Tensor&)>> ops = {
      [](const Tensor& x) { return softmax(x, 0); },
      [](const Tensor& x) { return softmax(x, 1); },
      [](const Tensor& x) { return log_softmax(x, 0); },
      [](const Tensor& x) { return log_softmax(x, 1); },
      [](const Tensor& x) { return layer_norm(x, {x.size(1)}); },
      [](const Tensor& x) { return rms_norm(x, {x.size(1)}); },
      [](const Tensor& x) { return mse_loss(x, x * 0.5); }};
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{300, 300}, {1, (1 << 18) + 5}})
    for (ScalarType t : {kFloat, kBFloat16}) {
      const Tensor x = draw(sizes, t);
      for (const auto& f : ops) {
        Tensor one, three;
        {
          const WithThreads threads(1);
          one = f(x);
        }
        {
          const WithThreads threads(3);
          three = f(x);
        }
        EXPECT_TRUE(same_bits(one, three));
      }
    }
}

TEST_F(NnOps, Normalisations) {
  SCOPED_TRACE(trace());
  for (ScalarType t : kFloats)
    for (int64_t n : {1, 2, 8, 10, 63, 64, 100, 1000})
      for (int affine = 0; affine < 4; ++affine) {
        SCOPED_TRACE(str(toString(t), " ", n, " affine ", affine));
        const Tensor x = draw({5, 2, n / 2 + 1}, t, 4, 8), w = draw({2, n / 2 + 1}, t), b = draw({2, n / 2 + 1}, t);
        const std::optional<Tensor> weight = affine & 1 ? std::optional(w) : std::nullopt,
                                    bias = affine & 2 ? std::optional(b) : std::nullopt;
        const std::vector<double> in = numbers(x), ws = numbers(w), bs = numbers(b);
        std::vector<double> layer, rms;
        const size_t m = ws.size();
        for (size_t r = 0; r < 5; ++r) {
          double mean = 0, variance = 0, square = 0;
          for (size_t i = 0; i < m; ++i) mean += in[r * m + i] / static_cast<double>(m);
          for (size_t i = 0; i < m; ++i)
            variance += (in[r * m + i] - mean) * (in[r * m + i] - mean) / static_cast<double>(m);
          for (size_t i = 0; i < m; ++i) square += in[r * m + i] * in[r * m + i] / static_cast<double>(m);
          for (size_t i = 0; i < m; ++i) {
            const double scale = affine & 1 ? ws[i] : 1, shift = affine & 2 ? bs[i] : 0;
            layer.push_back((in[r * m + i] - mean) / std::sqrt(variance + 1e-3) * scale + shift);
            rms.push_back(in[r * m + i] / std::sqrt(square + 1e-3) * scale);
          }
        }
        const double tol = tolerance(t) * 4;
        const Tensor fused = layer_norm(x, w.sizes(), weight, bias, 1e-3);
        expect_close(fused, layer, tol, tol);
        expect_close(layer_norm(x.transpose(0, 1).contiguous().transpose(0, 1), w.sizes(), weight, bias, 1e-3), layer,
                     tol, tol);
        const Tensor fused_rms = rms_norm(x, w.sizes(), weight, 1e-3);
        expect_close(fused_rms, rms, tol, tol);
        const WithoutKernel a(OpId::layer_norm), c(OpId::rms_norm);
        expect_close(layer_norm(x, w.sizes(), weight, bias, 1e-3), layer, tol, tol);
        expect_close(rms_norm(x, w.sizes(), weight, 1e-3), rms, tol, tol);
      }
  EXPECT_EQ(layer_norm(empty({0, 5}), {5}).sizes(), IntArrayRef({0, 5}));
  EXPECT_EQ(layer_norm(empty({5, 0}), {0}).sizes(), IntArrayRef({5, 0}));
  EXPECT_THROW(layer_norm(ones({4, 6}), {5}), ShapeError);
  EXPECT_THROW(layer_norm(ones({4, 6}), {6}, ones({5})), ShapeError);
  EXPECT_THROW(layer_norm(ones({4}), {}), ValueError);
  EXPECT_THROW(rms_norm(ones({4}, kLong), {4}), DTypeError);
  // Weights of a half input may stay in float.
  EXPECT_EQ(layer_norm(ones({2, 4}, kHalf), {4}, ones({4}), zeros({4})).scalar_type(), kHalf);
}

TEST_F(NnOps, LossesOfDifferences) {
  SCOPED_TRACE(trace());
  struct Loss {
    std::function<Tensor(const Tensor&, const Tensor&, int64_t)> run;
    std::function<double(double)> one;
  };
  const std::vector<Loss> losses = {
      {[](auto& a, auto& b, int64_t r) { return mse_loss(a, b, r); }, [](double d) { return d * d; }},
      {[](auto& a, auto& b, int64_t r) { return l1_loss(a, b, r); }, [](double d) { return std::abs(d); }},
      {[](auto& a, auto& b, int64_t r) { return smooth_l1_loss(a, b, r, 0.75); },
       [](double d) { return std::abs(d) < 0.75 ? d * d / 1.5 : std::abs(d) - 0.375; }},
      {[](auto& a, auto& b, int64_t r) { return huber_loss(a, b, r, 0.75); },
       [](double d) { return std::abs(d) <= 0.75 ? d * d / 2 : 0.75 * (std::abs(d) - 0.375); }}};
  for (ScalarType t : kFloats)
    for (const Loss& loss : losses) {
      SCOPED_TRACE(toString(t));
      const Tensor a = draw({30, 7}, t), b = draw({7}, t);
      const std::vector<double> x = numbers(a), y = numbers(b);
      std::vector<double> each;
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        each.push_back(loss.one(x[i] - y[i % 7]));
        sum += each.back();
      }
      const double tol = tolerance(t);
      expect_close(loss.run(a, b, Reduction::None), each, tol, tol);
      expect_close(loss.run(a, b, Reduction::Sum), {sum}, tol, tol);
      expect_close(loss.run(a, b, Reduction::Mean), {sum / static_cast<double>(each.size())}, tol, tol);
      expect_close(loss.run(a.t().contiguous().t(), b, Reduction::Mean), {sum / static_cast<double>(each.size())}, tol,
                   tol);
      EXPECT_TRUE(std::isnan(loss.run(empty({0}, t), empty({0}, t), Reduction::Mean).item<double>()));
      EXPECT_EQ(loss.run(empty({0}, t), empty({0}, t), Reduction::Sum).item<double>(), 0);
      EXPECT_THROW(loss.run(a, b, 7), ValueError);
      EXPECT_THROW(loss.run(a, ones({3}, t), 1), ShapeError);
    }
  EXPECT_EQ(mse_loss(ones({3}, kLong), zeros({3}, kLong), Reduction::Sum).scalar_type(), kLong);
  EXPECT_THROW(mse_loss(ones({3}, kLong), zeros({3}, kLong)), DTypeError);
  EXPECT_TRUE(mse_loss(empty({3}, kMeta), empty({3}, kMeta)).is_meta());
}

TEST_F(NnOps, BinaryCrossEntropy) {
  SCOPED_TRACE(trace());
  for (ScalarType t : kFloats)
    for (int weights = 0; weights < 4; ++weights) {
      const Tensor a = draw({9, 5}, t, -90, 90), b = draw({9, 5}, t, 0, 1), w = draw({5}, t, 0, 2),
                   p = draw({9, 1}, t, 0.5, 2);
      const std::vector<double> x = numbers(a), y = numbers(b), ws = numbers(w), ps = numbers(p);
      std::vector<double> each;
      double sum = 0;
      auto softplus = [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); };
      for (size_t i = 0; i < x.size(); ++i) {
        const double positive = weights & 2 ? ps[i / 5] : 1, scale = weights & 1 ? ws[i % 5] : 1;
        each.push_back(scale * (positive * y[i] * softplus(-x[i]) + (1 - y[i]) * softplus(x[i])));
        sum += each.back();
      }
      const std::optional<Tensor> weight = weights & 1 ? std::optional(w) : std::nullopt,
                                  pos = weights & 2 ? std::optional(p) : std::nullopt;
      const double tol = tolerance(t);
      expect_close(binary_cross_entropy_with_logits(a, b, weight, pos, Reduction::None), each, tol, tol);
      expect_close(binary_cross_entropy_with_logits(a, b, weight, pos), {sum / 45}, tol, tol);
      if (t != kHalf)
        expect_close(binary_cross_entropy_with_logits(a, b, weight, pos, Reduction::Sum), {sum}, tol, tol);
    }
  EXPECT_THROW(binary_cross_entropy_with_logits(ones({3}), ones({4})), ShapeError);
}

TEST_F(NnOps, NegativeLogLikelihood) {
  SCOPED_TRACE(trace());
  constexpr int64_t kIgnored = -100;
  for (ScalarType t : kFloats)
    for (bool weighted : {false, true}) {
      const Tensor x = draw({6, 4, 3}, t), w = draw({4}, t, 0.5, 2);
      std::vector<int64_t> labels;
      for (int i = 0; i < 18; ++i) labels.push_back(i % 7 == 3 ? kIgnored : static_cast<int64_t>(generator() % 4));
      const Tensor y = from_blob(labels.data(), {6, 3}, TensorOptions().dtype(kLong)).clone();
      const std::vector<double> in = numbers(x), ws = numbers(w);
      std::vector<double> each;
      double sum = 0, share = 0;
      for (size_t n = 0; n < 6; ++n)
        for (size_t k = 0; k < 3; ++k) {
          const int64_t c = labels[n * 3 + k];
          const double scale = c == kIgnored ? 0 : weighted ? ws[static_cast<size_t>(c)] : 1;
          each.push_back(c == kIgnored ? 0 : -scale * in[(n * 4 + static_cast<size_t>(c)) * 3 + k]);
          sum += each.back();
          share += scale;
        }
      const std::optional<Tensor> weight = weighted ? std::optional(w) : std::nullopt;
      const double tol = tolerance(t);
      expect_close(nll_loss(x, y, weight, Reduction::None), each, tol, tol);
      expect_close(nll_loss(x, y, weight, Reduction::Sum), {sum}, tol, tol);
      expect_close(nll_loss(x, y, weight), {sum / share}, tol, tol);
      expect_close(nll_loss(x.transpose(0, 2).contiguous().transpose(0, 2), y, weight), {sum / share}, tol, tol);
      expect_close(nll_loss(x.select(2, 1), y.select(1, 1), weight, Reduction::None),
                   {each[1], each[4], each[7], each[10], each[13], each[16]}, tol, tol);
      {
        const WithoutKernel without(OpId::nll_loss);
        expect_close(nll_loss(x, y, weight, Reduction::None), each, tol, tol);
        expect_close(nll_loss(x, y, weight), {sum / share}, tol, tol);
      }
      expect_close(nll_loss(x.select(2, 1).select(0, 2), y.select(1, 1).select(0, 2), weight, Reduction::None),
                   {each[7]}, tol, tol);
    }
  EXPECT_TRUE(std::isnan(nll_loss(ones({2, 3}), full({2}, kIgnored, TensorOptions().dtype(kLong))).item<double>()));
  EXPECT_EQ(nll_loss(empty({0, 3}), empty({0}, kLong), {}, Reduction::None).sizes(), IntArrayRef({0}));
  try {
    nll_loss(ones({2, 3}), tensor({1, 3}).to(kLong));
    FAIL() << "no error";
  } catch (const IndexError& e) {
    EXPECT_EQ(
        e.msg(),
        "nll_loss: Target 3 is out of bounds for 3 classes. Targets are class numbers from 0 to 2, or ignore_index");
  }
  EXPECT_THROW(nll_loss(ones({2, 3}), ones({2})), DTypeError);
  EXPECT_THROW(nll_loss(ones({2, 3}), ones({3}, kLong)), ShapeError);
}

// The gradient reads labels again: what is no class must not become a place in memory, whatever the loss was.
TEST_F(NnOps, GradientsOfCrossEntropyCheckLabels) {
  for (const ScalarType t : kFloats) {
    if (isFloat8Type(t)) continue;
    const ScalarType work = t == kDouble ? kDouble : kFloat;
    const Tensor x = draw({3, 4}, t), sums = x.to(work).logsumexp(1), total = full({}, 3, work);
    for (const int64_t reduction : {Reduction::None, Reduction::Mean, Reduction::Sum}) {
      const Tensor grad = reduction == Reduction::None ? ones({3}, t) : ones({}, t);
      const auto gradient = [&](int64_t label, int64_t ignored, double smoothing) {
        return _cross_entropy_backward(grad, x, tensor({int64_t{0}, label, int64_t{3}}), {}, sums, total, reduction,
                                       ignored, smoothing);
      };
      for (const int64_t label : {int64_t{4}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
        try {
          gradient(label, -100, 0.1);
          FAIL() << "no error for " << label;
        } catch (const IndexError& e) {
          EXPECT_EQ(e.msg(),
                    "cross_entropy_loss: Target " + std::to_string(label) +
                        " is out of bounds for 4 classes. Targets are class numbers from 0 to 3, or ignore_index");
        }
        // The same label is no error where it is the one to ignore: its row has no gradient, the others have.
        const Tensor result = gradient(label, label, 0.0);
        expect_close(result.select(0, 1), {0, 0, 0, 0}, 0, 0);
        EXPECT_GT(result.select(0, 0).abs().sum().item<double>(), 0);
      }
    }
  }
  // The loss says the same.
  EXPECT_THROW(cross_entropy_loss(ones({3, 4}), full({3}, INT64_MIN, kLong)), IndexError);
}

double norm_reference(const std::vector<double>& d, double p) {
  double sum = 0, top = 0;
  for (double x : d) {
    sum += p == 0 ? (x != 0) : std::pow(std::abs(x), p);
    top = std::max(top, std::abs(x));
  }
  return std::isinf(p) ? top : p == 0 ? sum : std::pow(sum, 1 / p);
}

TEST_F(NnOps, Distances) {
  SCOPED_TRACE(trace());
  for (ScalarType t : {kFloat, kDouble})
    for (double p : {0.0, 0.5, 1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()})
      for (int64_t rows : {3, 40}) {
        SCOPED_TRACE(str(toString(t), " p ", p, " rows ", rows));
        const Tensor a = draw({2, 1, rows, 6}, t), b = draw({3, 5, 6}, t);
        const std::vector<double> x = numbers(a), y = numbers(b);
        std::vector<double> wanted;
        for (int64_t i = 0; i < 2; ++i)
          for (int64_t j = 0; j < 3; ++j)
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t s = 0; s < 5; ++s) {
                std::vector<double> d;
                for (int64_t k = 0; k < 6; ++k)
                  d.push_back(x[static_cast<size_t>((i * rows + r) * 6 + k)] -
                              y[static_cast<size_t>((j * 5 + s) * 6 + k)]);
                wanted.push_back(norm_reference(d, p));
              }
        const Tensor got = cdist(a, b, p);
        EXPECT_EQ(got.sizes(), IntArrayRef({2, 3, rows, 5}));
        expect_close(got, wanted, tolerance(t) * 10, 0);
        if (p > 0) {
          const Tensor u = draw({rows, 6}, t), v = draw({6}, t);
          const std::vector<double> us = numbers(u), vs = numbers(v);
          std::vector<double> pairs;
          for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
            std::vector<double> d;
            for (size_t k = 0; k < 6; ++k) d.push_back(us[r * 6 + k] - vs[k] + 1e-3);
            pairs.push_back(norm_reference(d, p));
          }
          expect_close(pairwise_distance(u, v, p, 1e-3), pairs, tolerance(t) * 10, 0);
          EXPECT_EQ(pairwise_distance(u, v, p, 1e-3, true).sizes(), IntArrayRef({rows, 1}));
        }
      }
  EXPECT_EQ(cdist(empty({3, 0}), empty({4, 0})).sum().item<float>(), 0);
  EXPECT_EQ(cdist(empty({0, 3}), empty({4, 3})).sizes(), IntArrayRef({0, 4}));
  EXPECT_EQ(cdist(ones({30, 3}), ones({30, 3})).max().item<float>(), 0);
  EXPECT_THROW(cdist(ones({3, 4}), ones({3, 5})), ShapeError);
  EXPECT_THROW(cdist(ones({3, 4}), ones({3, 4}), -1), ValueError);
  EXPECT_THROW(cdist(ones({4}), ones({3, 4})), ShapeError);
}

TEST_F(NnOps, CosineSimilarity) {
  SCOPED_TRACE(trace());
  for (ScalarType t : kFloats) {
    const Tensor a = draw({3, 5, 4}, t), b = draw({5, 4}, t);
    const std::vector<double> x = numbers(a), y = numbers(b);
    std::vector<double> wanted;
    for (size_t i = 0; i < 3; ++i)
      for (size_t c = 0; c < 4; ++c) {
        double dot = 0, xx = 0, yy = 0;
        for (size_t k = 0; k < 5; ++k) {
          const double u = x[(i * 5 + k) * 4 + c], v = y[k * 4 + c];
          dot += u * v;
          xx += u * u;
          yy += v * v;
        }
        wanted.push_back(dot / std::sqrt(xx * yy));
      }
    expect_close(cosine_similarity(a, b, 1), wanted, tolerance(t), tolerance(t));
  }
  EXPECT_EQ(cosine_similarity(zeros({1, 2}), ones({1, 2})).item<float>(), 0);
}

}  // namespace
}  // namespace facula
