// Primitives on a GPU against the CPU, on the shapes that choose between kernels: rows of registers, long rows, rows that several blocks
// share, memory that is not aligned, places that many entries meet in. The records cover small shapes, all layouts and dtypes.
#include "closeness.h"
#include "gpu/primitives/loss.h"

#include <facula/facula.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace facula::testing {
namespace {

class GpuPrimitives : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(test_seed()); }
};

// ---- rows ---------------------------------------------------------------------------------------------------------------------

struct RowCase {
  ScalarType dtype;
  int64_t rows, n, shift;
};
std::vector<RowCase> row_cases() {
  return {{kFloat, 37, 1, 0},      {kFloat, 9, 5, 1},       {kFloat, 5, 129, 3},   {kBFloat16, 6, 768, 0},
          {kBFloat16, 3, 1001, 5}, {kHalf, 2, 4096, 0},     {kDouble, 3, 2049, 1}, {kFloat, 2, 9000, 0},
          {kFloat, 2, 40001, 2},   {kBFloat16, 1, 70000, 0}};
}

TEST_F(GpuPrimitives, SoftmaxOfRowsOfEveryLength) {
  for (const RowCase& c : row_cases()) {
    Tensor x = (randn({c.rows, c.n}) * 3).to(c.dtype);
    if (c.n > 3) x.slice(1, 1, 3).fill_(-std::numeric_limits<double>::infinity());
    const Tensor g = randn({c.rows, c.n}).to(c.dtype);
    const Tensor on_gpu = shifted(x.to(kGpu), c.shift), g_gpu = shifted(g.to(kGpu), c.shift);
    const std::string what = words("softmax", c.dtype, x.sizes(), c.shift);
    const Tensor y = x.softmax(1), z = x.log_softmax(1);
    expect_close(on_gpu.softmax(1), y, what);
    expect_close(on_gpu.log_softmax(1), z, "log " + what);
    expect_close(_softmax_backward_data(g_gpu, shifted(y.to(kGpu), c.shift), 1, c.dtype),
                 _softmax_backward_data(g, y, 1, c.dtype), what + " backward", 4);
    const Tensor finite = z.masked_fill(z == -std::numeric_limits<double>::infinity(), -30);
    expect_close(_log_softmax_backward_data(g_gpu, shifted(finite.to(kGpu), c.shift), 1, c.dtype),
                 _log_softmax_backward_data(g, finite, 1, c.dtype), "log " + what + " backward", 8);
  }
}

TEST_F(GpuPrimitives, SoftmaxOfWhatIsNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  Tensor x = randn({4, 300});
  x[0].fill_(-inf);
  x[1][7] = inf;
  x[2][299] = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t n : {300, 70000}) {
    const Tensor wide = x.repeat({1, (n + 299) / 300}).slice(1, 0, n).contiguous();
    expect_close(wide.to(kGpu).softmax(1), wide.softmax(1), "softmax");
    expect_close(wide.to(kGpu).log_softmax(1), wide.log_softmax(1), "log_softmax");
  }
}

TEST_F(GpuPrimitives, SoftmaxOfColumnsAndWider) {
  const Tensor x = randn({3, 50, 70});
  for (const int64_t dim : {0, 1}) {
    expect_close(x.to(kGpu).softmax(dim), x.softmax(dim), "softmax of columns");
    expect_close(x.to(kGpu).log_softmax(dim), x.log_softmax(dim), "log_softmax of columns");
  }
  const Tensor narrow = x.to(kHalf);
  expect_close(narrow.to(kGpu).softmax(2, kFloat), narrow.softmax(2, kFloat), "softmax that widens");
}

TEST_F(GpuPrimitives, NormsOfRowsOfEveryLength) {
  for (const RowCase& c : row_cases()) {
    const ScalarType work = c.dtype == kDouble ? kDouble : kFloat;
    const Tensor x = (randn({c.rows, c.n}) * 2 + 1).to(c.dtype), g = randn({c.rows, c.n}).to(c.dtype);
    const Tensor w = randn({c.n}, work), b = randn({c.n}, work);
    const Tensor xg = shifted(x.to(kGpu), c.shift), gg = shifted(g.to(kGpu), c.shift),
                 wg = shifted(w.to(kGpu), c.shift), bg = b.to(kGpu);
    const std::string what = words("layer_norm", c.dtype, x.sizes(), c.shift);
    expect_close(layer_norm(xg, {c.n}, wg, bg), layer_norm(x, {c.n}, w, b), what, 2);
    expect_close(layer_norm(xg, {c.n}), layer_norm(x, {c.n}), what + " plain", 2);
    expect_close(rms_norm(xg, {c.n}, wg, 1e-5), rms_norm(x, {c.n}, w, 1e-5), "rms " + what, 2);
    if (c.n == 1) continue;  // all differences are rounding
    const auto [a0, a1, a2] = _layer_norm_backward(gg, xg, {c.n}, wg, 1e-5);
    const auto [e0, e1, e2] = _layer_norm_backward(g, x, {c.n}, w, 1e-5);
    expect_close(a0, e0, what + " backward, input", 8);
    expect_close(a1, e1, what + " backward, weight", 8);
    expect_close(a2, e2, what + " backward, bias", 8);
    const auto [r0, r1] = _rms_norm_backward(gg, xg, {c.n}, std::nullopt, 1e-5);
    const auto [s0, s1] = _rms_norm_backward(g, x, {c.n}, std::nullopt, 1e-5);
    expect_close(r0, s0, "rms " + what + " backward, input", 8);
    expect_close(r1, s1, "rms " + what + " backward, weight", 8);
  }
}

TEST_F(GpuPrimitives, NormsOfManyRows) {
  // More rows than the chip works on at once; weights of either width, both, one or none.
  for (const ScalarType t : {kFloat, kBFloat16, kHalf, kDouble})
    for (const auto& [rows, n] : {std::pair(3001, 24), std::pair(201, 776), std::pair(29, 4096), std::pair(19, 8200)}) {
      if (n > 1000 && (t == kHalf || t == kDouble)) continue;  // nothing new but compilations
      const Tensor x = (randn({rows, n}) * 2 + 3).to(t), xg = x.to(kGpu);
      std::vector<ScalarType> weights{t};
      if (t == kBFloat16) weights.push_back(kFloat);
      for (const ScalarType tw : weights) {
        const Tensor w = randn({n}).to(tw), b = randn({n}).to(tw), wg = w.to(kGpu), bg = b.to(kGpu);
        const std::string what = words("layer_norm", t, x.sizes(), 0);
        expect_close(layer_norm(xg, {n}, wg, bg), layer_norm(x, {n}, w, b), what, 2);
        expect_close(layer_norm(xg, {n}, wg), layer_norm(x, {n}, w), what + " without bias", 2);
        expect_close(layer_norm(xg, {n}, {}, bg), layer_norm(x, {n}, {}, b), what + " without weight", 2);
        expect_close(rms_norm(xg, {n}, wg, 1e-5), rms_norm(x, {n}, w, 1e-5), "rms " + what, 2);
      }
      expect_close(layer_norm(xg, {n}), layer_norm(x, {n}), "plain layer_norm", 2);
    }
  // Equal entries have no deviation, not even that of a mean's last bit, of which a small eps would make much.
  for (const ScalarType t : {kFloat, kBFloat16, kHalf, kDouble})
    for (const int64_t n : {7, 56, 896, 7168, 70000}) {
      if (n > 1000 && t == kHalf) continue;
      const Tensor same = full({5, n}, 1000.0, t), g = randn({5, n}).to(t);
      expect_close(layer_norm(same.to(kGpu), {n}), zeros({5, n}, t), words("equal entries", t, same.sizes(), 0), 0.1);
      const auto [a0, a1, a2] = _layer_norm_backward(g.to(kGpu), same.to(kGpu), {n}, ones({n}, t).to(kGpu), 1e-5);
      expect_close(a1, zeros_like(a1.cpu()), words("weight of equal entries", t, same.sizes(), 0), 0.1);
    }
  Tensor odd = randn({50, 64});
  odd[3][5] = std::numeric_limits<double>::quiet_NaN();
  odd[40][63] = std::numeric_limits<double>::infinity();
  for (const ScalarType t : {kFloat, kBFloat16})
    expect_close(layer_norm(odd.to(t).to(kGpu), {64}), layer_norm(odd.to(t), {64}), "rows that are not finite", 2);
}

TEST_F(GpuPrimitives, SumsOverManyRowsOfNorms) {
  // More rows than blocks that add them up.
  const Tensor x = randn({3000, 24}), g = randn({3000, 24}), w = randn({24});
  const auto [a0, a1, a2] = _layer_norm_backward(g.to(kGpu), x.to(kGpu), {24}, w.to(kGpu), 1e-5);
  const auto [e0, e1, e2] = _layer_norm_backward(g, x, {24}, w, 1e-5);
  expect_close(a0, e0, "input", 8);
  expect_close(a1, e1, "weight", 16);
  expect_close(a2, e2, "bias", 16);
}

// ---- images ------------------------------------------------------------------------------------------------------------------

Tensor in_layout(const Tensor& t, bool channels_last) {
  return channels_last ? t.contiguous(MemoryFormat::ChannelsLast) : t.contiguous();
}

TEST_F(GpuPrimitives, BatchNormInBothLayouts) {
  struct Case {
    ScalarType dtype;
    std::vector<int64_t> sizes;
  };
  for (const Case& c : {Case{kFloat, {5, 7, 6, 9}},
                        {kFloat, {3, 64, 8, 8}},
                        {kDouble, {4, 3, 5, 4}},
                        {kBFloat16, {4, 8, 6, 4}},
                        {kFloat, {700, 33}},
                        {kFloat, {2, 5, 3000}}}) {
    const ScalarType work = c.dtype == kDouble ? kDouble : kFloat;
    for (const bool last : {false, true}) {
      if (last && c.sizes.size() != 4) continue;
      const Tensor x = in_layout((randn(c.sizes) * 2 + 5).to(c.dtype), last),
                   g = in_layout(randn(c.sizes).to(c.dtype), last);
      const Tensor w = randn({c.sizes[1]}, work), b = randn({c.sizes[1]}, work);
      const Tensor xg = x.to(kGpu), gg = g.to(kGpu), wg = w.to(kGpu), bg = b.to(kGpu);
      const std::string what = words("batch_norm", c.dtype, x.sizes(), last);
      for (const bool training : {true, false}) {
        Tensor mean = randn({c.sizes[1]}, work), var = rand({c.sizes[1]}, work) + 0.5;
        Tensor mean_gpu = mean.to(kGpu), var_gpu = var.to(kGpu);
        const auto [y, m, r] = native_batch_norm(x, w, b, mean, var, training, 0.1, 1e-5);
        const auto [yg, mg, rg] = native_batch_norm(xg, wg, bg, mean_gpu, var_gpu, training, 0.1, 1e-5);
        expect_close(yg, y, what, 4);
        expect_close(mg, m, what + ", mean", 2);
        expect_close(rg, r, what + ", deviation", 4);
        expect_close(mean_gpu, mean, what + ", running mean", 2);
        expect_close(var_gpu, var, what + ", running variance", 4);
        const auto [e0, e1, e2] = _batch_norm_backward(g, x, w, m, r, training);
        const auto [a0, a1, a2] = _batch_norm_backward(gg, xg, wg, m.to(kGpu), r.to(kGpu), training);
        expect_close(a0, e0, what + " backward, input", 8);
        expect_close(a1, e1, what + " backward, weight", 20);
        expect_close(a2, e2, what + " backward, bias", 20);
      }
    }
  }
}

// As much shared memory as blocks have without being asked, of which the kernel itself takes some: a row that is not aligned like its result.
TEST_F(GpuPrimitives, SoftmaxOfARowThatJustFits) {
  for (const int64_t n : {int64_t{12288}, int64_t{12287}, int64_t{11777}}) {
    const Tensor x = randn({n + 1});
    expect_close(x.to(kGpu).slice(0, 1).softmax(0), x.slice(0, 1).softmax(0), "row of " + std::to_string(n), 8);
  }
}

// Teams behind the last row add nothing, also where nothing keeps their root from being zero.
TEST_F(GpuPrimitives, GradientsOfNormsWithoutEpsilon) {
  const Tensor x = randn({3, 8}), g = randn({3, 8}), w = randn({8});
  const auto [want, want_weight, want_bias] = _layer_norm_backward(g, x, {8}, w, 0.0);
  const auto [have, have_weight, have_bias] = _layer_norm_backward(g.to(kGpu), x.to(kGpu), {8}, w.to(kGpu), 0.0);
  expect_close(have, want, "input", 16);
  expect_close(have_weight, want_weight, "weight", 16);
  expect_close(have_bias, want_bias, "bias", 16);
  expect_close(std::get<1>(_rms_norm_backward(g.to(kGpu), x.to(kGpu), {8}, w.to(kGpu), 0.0)),
               std::get<1>(_rms_norm_backward(g, x, {8}, w, 0.0)), "weight of rms_norm", 16);
}

TEST_F(GpuPrimitives, MaxPoolingKeepsNan) {
  Tensor x = randn({1, 2, 12});
  x.select(2, 4).fill_(NAN);
  for (const Tensor& on : {x, x.to(kGpu)}) {
    const auto [values, places] = max_pool1d_with_indices(on, {3});
    EXPECT_TRUE(values.cpu().select(2, 1).isnan().all().item<bool>());
    EXPECT_FALSE(values.cpu().select(2, 0).isnan().any().item<bool>());
    EXPECT_TRUE((places.cpu().select(2, 1) == 4).all().item<bool>());
  }
}

// Windows that overlap, leave entries out, have gaps or are shared out evenly, over channels that are read one by one and side by side.
TEST_F(GpuPrimitives, MaxPoolingOfAllKindsAndItsGradient) {
  struct Windows {
    std::vector<int64_t> out, kernel, stride, padding, dilation;
  };
  const Windows all[] = {{{7, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                         {{11, 8}, {3, 3}, {1, 1}, {0, 0}, {1, 1}},
                         {{4, 3}, {2, 2}, {4, 4}, {1, 1}, {1, 1}},
                         {{5, 6}, {3, 2}, {2, 1}, {1, 0}, {2, 4}},
                         {{4, 3}, {}, {}, {}, {}},
                         {{17, 13}, {}, {}, {}, {}}};
  for (const ScalarType t : {kFloat, kDouble, kHalf, kBFloat16})
    for (const int64_t channels : {5, 16})
      for (const bool last : {false, true})
        for (const Windows& w : all) {
          const Tensor x = in_layout(randn({2, channels, 13, 10}).to(t), last);
          const auto [v, i] = _max_pool(x, w.out, w.kernel, w.stride, w.padding, w.dilation);
          const auto [gv, gi] = _max_pool(x.to(kGpu), w.out, w.kernel, w.stride, w.padding, w.dilation);
          expect_equal(gv, v, "largest");
          expect_equal(gi, i, "places");
          const Tensor g = in_layout(randn(v.sizes()).to(t), last);
          const Tensor want = _max_pool_backward(g, i, x.sizes(), w.kernel, w.stride, w.padding, w.dilation);
          expect_close(_max_pool_backward(g.to(kGpu), gi, x.sizes(), w.kernel, w.stride, w.padding, w.dilation), want,
                       "gradient");
        }
}

TEST_F(GpuPrimitives, PoolingInBothLayouts) {
  for (const bool last : {false, true}) {
    const Tensor x = in_layout(randn({3, 5, 13, 10}), last), xg = x.to(kGpu);
    const auto [v, i] = _max_pool(x, {7, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1});
    const auto [gv, gi] = _max_pool(xg, {7, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1});
    expect_equal(gv, v, "max_pool");
    expect_equal(gi, i, "max_pool, places");
    const Tensor g = in_layout(randn({3, 5, 7, 5}), last);
    expect_close(_max_pool_backward(g.to(kGpu), gi, x.sizes(), {3, 3}, {2, 2}, {1, 1}, {1, 1}),
                 _max_pool_backward(g, i, x.sizes(), {3, 3}, {2, 2}, {1, 1}, {1, 1}), "max_pool backward");
    for (const bool padding : {true, false}) {
      expect_close(_avg_pool(xg, {7, 5}, {3, 3}, {2, 2}, {1, 1}, padding, std::nullopt),
                   _avg_pool(x, {7, 5}, {3, 3}, {2, 2}, {1, 1}, padding, std::nullopt), "avg_pool");
      expect_close(_avg_pool_backward(g.to(kGpu), x.sizes(), {3, 3}, {2, 2}, {1, 1}, padding, std::nullopt),
                   _avg_pool_backward(g, x.sizes(), {3, 3}, {2, 2}, {1, 1}, padding, std::nullopt),
                   "avg_pool backward");
    }
    expect_close(_avg_pool(xg, {4, 3}, {}, {}, {}, true, std::nullopt),
                 _avg_pool(x, {4, 3}, {}, {}, {}, true, std::nullopt), "adaptive avg_pool");
    const Tensor even = in_layout(randn({3, 5, 4, 3}), last);
    expect_close(_avg_pool_backward(even.to(kGpu), x.sizes(), {}, {}, {}, true, std::nullopt),
                 _avg_pool_backward(even, x.sizes(), {}, {}, {}, true, std::nullopt), "adaptive avg_pool backward");
  }
}

// ---- losses -------------------------------------------------------------------------------------------------------------------

TEST_F(GpuPrimitives, CrossEntropyAndItsGradientInOnePass) {
  struct Case {
    ScalarType dtype;
    int64_t rows, classes;
    double smoothing;
    bool weighted;
  };
  for (const Case& c : {Case{kFloat, 7, 10, 0, false},
                        {kFloat, 5, 333, 0.1, true},
                        {kBFloat16, 4, 5003, 0, false},
                        {kDouble, 3, 70, 0.3, false},
                        {kFloat, 2, 40000, 0.1, false}}) {
    const ScalarType work = c.dtype == kDouble ? kDouble : kFloat;
    const Tensor x = (randn({c.rows, c.classes}) * 2).to(c.dtype);
    Tensor y = randint(c.classes, {c.rows});
    y[1] = -100;
    const Tensor w = c.weighted ? rand({c.classes}, work) + 0.5 : Tensor();
    const std::optional<Tensor> weight = c.weighted ? std::optional(w) : std::nullopt;
    const std::optional<Tensor> weight_gpu = c.weighted ? std::optional(w.to(kGpu)) : std::nullopt;
    const Tensor xg = x.to(kGpu), yg = y.to(kGpu);
    const std::string what = words("cross entropy", c.dtype, x.sizes());
    for (const int64_t reduction : {Reduction::None, Reduction::Mean, Reduction::Sum}) {
      const auto [loss, lse, total] = _cross_entropy(x, y, weight, reduction, -100, c.smoothing);
      const auto [got_loss, got_lse, got_total] = _cross_entropy(xg, yg, weight_gpu, reduction, -100, c.smoothing);
      expect_close(got_loss, loss, what, 4);
      expect_close(got_lse, lse, what + ", logarithms", 2);
      expect_close(got_total, total, what + ", total");
      const Tensor g = randn(loss.sizes()).to(c.dtype);
      expect_close(
          _cross_entropy_backward(g.to(kGpu), xg, yg, weight_gpu, got_lse, got_total, reduction, -100, c.smoothing),
          _cross_entropy_backward(g, x, y, weight, lse, total, reduction, -100, c.smoothing), what + " backward", 4);
    }
    // The same in one pass, into the memory of the logits.
    const auto [loss, lse, total] = _cross_entropy(x, y, weight, Reduction::None, -100, c.smoothing);
    const Tensor scale = full({}, 0.25, TensorOptions().dtype(work)), by = total.to(kGpu);
    const Tensor expected = _cross_entropy_backward((scale / total).to(c.dtype).expand({c.rows}).contiguous(), x, y,
                                                    weight, lse, total, Reduction::None, -100, c.smoothing);
    const Tensor losses = empty({c.rows}, TensorOptions().dtype(work).device(kGpu)), in_place = xg.clone();
    const Tensor weights = c.weighted ? w.to(kGpu) : Tensor(), by_grad = scale.to(kGpu);
    const gpu::CrossEntropyGradient gradient{by_grad, by, in_place};
    gpu::cross_entropy({in_place, yg, weights, -100, c.smoothing}, losses, Tensor(), Tensor(), &gradient);
    expect_close(losses.to(c.dtype), loss, what + " in one pass", 4);
    expect_close(in_place, expected, what + " in one pass, gradient", 4);
  }
}

TEST_F(GpuPrimitives, NllLossOfMoreTargetsThanThreads) {
  const Tensor x = randn({90, 13, 40}), w = rand({13});
  Tensor y = randint(13, {90, 40});
  y[3].fill_(-100);
  for (const int64_t reduction : {Reduction::None, Reduction::Mean, Reduction::Sum})
    expect_close(nll_loss(x.to(kGpu), y.to(kGpu), w.to(kGpu), reduction), nll_loss(x, y, w, reduction), "nll_loss");
}

// ---- indices ------------------------------------------------------------------------------------------------------------------

TEST_F(GpuPrimitives, ManyEntriesMeetInOnePlace) {
  // Far more than are folded at a time; whole numbers are exact in any order.
  for (const ScalarType t : {kFloat, kLong, kBFloat16, kBool}) {
    for (const int64_t width : {1, 3, 64}) {
      Tensor index = randint(5, {1500});
      index.slice(0, 0, 700).fill_(3);
      const Tensor source = randint(-1, 2, {1500, width}).to(t), self = randint(-1, 2, {6, width}).to(t);
      const std::string what = words("index_add", t, source.sizes());
      const Tensor expected =
          self.to(t == kBFloat16 ? kFloat : t).index_add(0, index, source.to(t == kBFloat16 ? kFloat : t));
      const Tensor got = self.to(kGpu).index_add(0, index.to(kGpu), source.to(kGpu));
      expect_equal(got, expected.to(t), what);
    }
  }
}

TEST_F(GpuPrimitives, SumsAtIndicesAreTheSameAgain) {
  const Tensor index = randint(9, {4000}).to(kGpu), source = randn({4000, 8}).to(kGpu),
               zeros = facula::zeros({9, 8}, kGpu);
  const Tensor first = zeros.index_add(0, index, source), second = zeros.index_add(0, index, source);
  expect_equal(first, second.cpu(), "index_add again");
  const Tensor flat = randint(100, {5000}).to(kGpu), values = randn({5000}).to(kGpu);
  const Tensor a = facula::zeros({100}, kGpu).scatter_add(0, flat, values);
  expect_equal(a, facula::zeros({100}, kGpu).scatter_add(0, flat, values).cpu(), "scatter_add again");
  expect_close(a, facula::zeros({100}).scatter_add(0, flat.cpu(), values.cpu()), "scatter_add", 10);
}

TEST_F(GpuPrimitives, OfEntriesThatMeetTheLastIsWritten) {
  const Tensor index = randint(50, {3000}), source = randn({3000, 5}), self = randn({50, 5});
  expect_equal(self.to(kGpu).index_copy(0, index.to(kGpu), source.to(kGpu)), self.index_copy(0, index, source),
               "index_copy");
  const Tensor places = randint(40, {30, 200}), values = randn({30, 200}), target = randn({30, 40});
  expect_equal(target.to(kGpu).scatter(1, places.to(kGpu), values.to(kGpu)), target.scatter(1, places, values),
               "scatter");
  const Tensor row = randint(40, {1, 200}).expand({30, 200});
  expect_equal(target.to(kGpu).scatter(1, row.to(kGpu), values.to(kGpu)), target.scatter(1, row, values),
               "scatter with an expanded index");
}

TEST_F(GpuPrimitives, ScatterReduceWithEveryFold) {
  const Tensor index = randint(7, {12, 300}), source = (randn({12, 300}) * 0.05 + 1), self = randn({12, 9});
  for (const char* how : {"sum", "prod", "mean", "amax", "amin"})
    for (const bool include : {true, false})
      expect_close(self.to(kGpu).scatter_reduce(1, index.to(kGpu), source.to(kGpu), how, include),
                   self.scatter_reduce(1, index, source, how, include), how, 20);
}

TEST_F(GpuPrimitives, EmbeddingAndItsGradient) {
  for (const ScalarType t : {kFloat, kBFloat16, kHalf, kDouble}) {
    const Tensor table = randn({40, 24}).to(t);
    Tensor index = randint(40, {30, 20});
    index.slice(0, 0, 9).fill_(7);
    expect_equal(embedding(table.to(kGpu), index.to(kGpu)), embedding(table, index), "embedding");
    const Tensor g = randn({30, 20, 24}).to(t);
    for (const bool by_frequency : {false, true})
      for (const int64_t padding : {-1, 7, 11})
        expect_close(embedding_dense_backward(g.to(kGpu), index.to(kGpu), 40, padding, by_frequency),
                     embedding_dense_backward(g, index, 40, padding, by_frequency),
                     words("embedding backward", t, g.sizes(), padding), 10);
  }
}

TEST_F(GpuPrimitives, RowsMoveInPiecesOfEverySize) {
  for (const ScalarType t : {kByte, kHalf, kFloat, kComplexDouble}) {
    for (const int64_t width : {1, 3, 4, 48}) {
      const Tensor table = randn({60, width}).mul(50).to(t), index = randint(60, {77});
      expect_equal(real_parts(table.to(kGpu).index_select(0, index.to(kGpu))), real_parts(table.index_select(0, index)),
                   words("index_select", t, table.sizes()));
      expect_equal(real_parts(table.to(kGpu).t().index_select(1, index.to(kGpu))),
                   real_parts(table.t().index_select(1, index)), "index_select of columns");
    }
  }
}

TEST_F(GpuPrimitives, BadIndicesAreReportedWithTheirBound) {
  const Tensor x = randn({5, 4}).to(kGpu);
  const auto report = [&](const std::function<Tensor()>& call) -> std::string {
    try {
      call().cpu();
    } catch (const IndexError& error) {
      return error.what();
    }
    return "no error";
  };
  const Tensor bad = tensor({1, 17}).to(kGpu), below = tensor({-6, 1}).to(kGpu);
  EXPECT_NE(report([&] { return x.index_select(0, bad); }).find("index 17 is out of bounds for dimension with size 5"),
            std::string::npos);
  EXPECT_NE(report([&] { return x.index({below}); }).find("index: index -6"), std::string::npos);
  EXPECT_NE(report([&] {
              return x.index_add(0, bad, facula::ones({2, 4}, kGpu));
            }).find("index_add_"),
            std::string::npos);
  EXPECT_NE(report([&] { return x.gather(0, bad.unsqueeze(1)); }).find("gather: index 17"), std::string::npos);
  EXPECT_NE(report([&] { return nll_loss(x, tensor({0, 1, 4, 2, 3}).to(kGpu)); }).find("index 4"), std::string::npos);
  EXPECT_NE(report([&] {
              return cross_entropy_loss(x, tensor({0, 1, -7, 2, 3}).to(kGpu));
            }).find("index -7"),
            std::string::npos);
  // The device works on.
  EXPECT_EQ(x.index_select(0, tensor({4}).to(kGpu)).size(0), 1);
}

// ---- sorts --------------------------------------------------------------------------------------------------------------------

TEST_F(GpuPrimitives, SortsOfLinesOfEveryLength) {
  for (const ScalarType t : {kFloat, kBFloat16, kDouble, kChar, kLong, kBool}) {
    for (const int64_t n : {1, 6, 100, 1500, 9000}) {
      Tensor x = (randn({3, n}) * 20).to(t);
      if (t == kFloat && n > 9) {
        x[0][3] = std::numeric_limits<double>::quiet_NaN();
        x[1][4] = -0.0;
        x[1][7] = 0.0;
      }
      for (const bool descending : {false, true}) {
        const auto [v, i] = x.sort(1, descending);
        const auto [gv, gi] = x.to(kGpu).sort(1, descending);
        expect_equal(gi, i, words("sort", t, x.sizes(), descending));
        expect_equal(gv, v, words("sorted", t, x.sizes(), descending));
      }
      if (t == kBool) continue;
      const int64_t k = (n + 1) / 2;
      const auto [v, i] = x.topk(k, 1);
      const auto [gv, gi] = x.to(kGpu).topk(k, 1);
      expect_equal(gi, i, words("topk", t, x.sizes()));
      const auto [kv, ki] = x.kthvalue(k, 1);
      const auto [gkv, gki] = x.to(kGpu).kthvalue(k, 1);
      expect_equal(gkv, kv, words("kthvalue", t, x.sizes()));
      expect_equal(gki, ki, words("kthvalue, place", t, x.sizes()));
    }
  }
  const Tensor columns = randn({5000, 3});
  expect_equal(columns.to(kGpu).argsort(0), columns.argsort(0), "argsort of columns");
}

TEST_F(GpuPrimitives, MediansOfLinesOfEveryLength) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const ScalarType t : {kFloat, kBFloat16, kHalf, kDouble, kChar, kLong, kByte, kBool}) {
    for (const int64_t n : {1, 2, 7, 100, 5001}) {
      // Few different values: of equal ones the first decides which place is told.
      Tensor x = randint(-4, 5, {4, n}).to(t);
      if (isFloatingType(t) && n > 6) {
        x[1][n - 1] = nan;  // one that is not the first of its row
        x[2][3] = nan;
        x[2][n / 2] = nan;
        x[3][0] = -0.0;
        x[3][1] = 0.0;
      }
      const Tensor g = x.to(kGpu);
      const auto [v, i] = x.median(1);
      const auto [gv, gi] = g.median(1);
      expect_equal(gv, v, words("median", t, x.sizes()));
      expect_equal(gi, i, words("median, place", t, x.sizes()));
      const auto [cv, ci] = x.median(0, true);
      const auto [gcv, gci] = g.median(0, true);
      expect_equal(gcv, cv, words("median of columns", t, x.sizes()));
      expect_equal(gci, ci, words("median of columns, place", t, x.sizes()));
      expect_equal(g.median(), x.median(), words("median of all", t, x.sizes()));
      expect_equal(g[0].median(), x[0].median(), words("median of a row", t, x.sizes()));
      expect_equal(g.t().median(), x.t().median(), words("median of all, transposed", t, x.sizes()));
    }
  }
  const auto [v, i] = facula::full({}, 3.5, kGpu).median(0);
  EXPECT_EQ(v.item<double>(), 3.5);
  EXPECT_EQ(i.item<int64_t>(), 0);
  EXPECT_TRUE(v.is_cuda() && i.is_cuda());
  // Nothing has no middle: NaN, or 0 for integers; along a dim it is an error, unless there is no line at all.
  EXPECT_TRUE(std::isnan(facula::empty({0}, kGpu).median().item<double>()));
  EXPECT_EQ(facula::empty({0}, TensorOptions(kLong).device(kGpu)).median().item<int64_t>(), 0);
  EXPECT_THROW(facula::empty({2, 0}, kGpu).median(1), IndexError);
  EXPECT_EQ(std::get<1>(facula::empty({0, 3}, kGpu).median(1)).sizes(), IntArrayRef({0}));
  // The gradient goes to the entry that was found.
  Tensor leaf = tensor({3.0, 1.0, 2.0, 2.0}).to(kGpu).requires_grad_();
  std::get<0>(leaf.median(0)).backward();
  expect_equal(leaf.grad(), tensor({0.0, 0.0, 1.0, 0.0}), "gradient of a median");
}

TEST_F(GpuPrimitives, RepeatsWithTheirOwnCounts) {
  for (const ScalarType t : {kFloat, kBFloat16, kDouble, kLong, kBool, kComplexFloat}) {
    const Tensor x = randn({6, 5, 4}).mul(9).to(t), g = x.to(kGpu);
    for (int64_t dim = 0; dim < 3; ++dim) {
      const Tensor counts = randint(0, 4, {x.size(dim)});
      for (const ScalarType type : {kLong, kInt})
        expect_equal(real_parts(g.repeat_interleave(counts.to(type).to(kGpu), dim)),
                     real_parts(x.repeat_interleave(counts.to(type), dim)),
                     words("repeat_interleave", t, x.sizes(), dim));
      expect_equal(real_parts(g.transpose(0, dim).repeat_interleave(counts.to(kGpu), 0)),
                   real_parts(x.transpose(0, dim).repeat_interleave(counts, 0)), "repeat_interleave, transposed");
    }
    const Tensor flat = randint(0, 3, {120});
    expect_equal(real_parts(g.repeat_interleave(flat.to(kGpu))), real_parts(x.repeat_interleave(flat)),
                 words("repeat_interleave of all", t, x.sizes()));
    // One count for all entries, which may be a number of the CPU.
    expect_equal(real_parts(g.repeat_interleave(tensor({2}).to(kGpu), 1)), real_parts(x.repeat_interleave(2, 1)),
                 "repeat_interleave, one count");
    expect_equal(real_parts(g.repeat_interleave(facula::full({}, 2, kLong), -1)),
                 real_parts(x.repeat_interleave(2, -1)), "repeat_interleave, a number");
  }
  const Tensor counts = randint(0, 5, {20000}), on_gpu = counts.to(kGpu);
  const Tensor expected = repeat_interleave(counts);
  expect_equal(repeat_interleave(on_gpu), expected, "repeat_interleave of counts");
  EXPECT_EQ(repeat_interleave(on_gpu.to(kInt)).scalar_type(), kInt);
  // With the length told, nothing waits.
  expect_equal(repeat_interleave(on_gpu, std::optional<int64_t>(expected.numel())), expected,
               "repeat_interleave with its length");

  // Nothing to repeat, and nothing repeated.
  const Tensor none = facula::empty({0, 3}, kGpu), two = facula::ones({2, 3}, kGpu);
  const Tensor no_counts = facula::empty({0}, TensorOptions(kLong).device(kGpu));
  EXPECT_EQ(none.repeat_interleave(no_counts, 0).sizes(), IntArrayRef({0, 3}));
  EXPECT_EQ(none.repeat_interleave(no_counts, 0, 0).sizes(), IntArrayRef({0, 3}));
  EXPECT_EQ(none.repeat_interleave(tensor({1, 0, 4}).to(kGpu), 1).sizes(), IntArrayRef({0, 5}));
  EXPECT_EQ(two.repeat_interleave(tensor({0, 0}).to(kGpu), 0).sizes(), IntArrayRef({0, 3}));

  // The same errors as on the CPU.
  const auto both = [&](const Tensor& repeats, std::optional<int64_t> length) {
    std::vector<std::string> said;
    for (const Tensor& t : {repeats, repeats.to(kGpu)}) {
      try {
        facula::ones({2, 3}, t.device()).repeat_interleave(t, 0, length);
        said.push_back("no error");
      } catch (const Error& error) {
        said.push_back(std::string(error.type_name()) + " " + error.what());
      }
    }
    EXPECT_EQ(said[0], said[1]);
    return said[0];
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(both(tensor({1, -3}), {}), "ValueError repeat_interleave: repeats can not be negative, but entry 1 is -3");
  has(both(tensor({4, -3}), {}), "entry 1 is -3");  // although the sum is none
  has(both(tensor({-2}), {}), "entry 0 is -2");
  has(both(facula::full({2}, int64_t{1} << 62, kLong), {}), "overflows 64 bits");
  has(both(tensor({1, 2}), 0), "output_size is 0 but the repeats add up to 3");
  has(both(tensor({1, 2}), -1), "output_size is -1 but the repeats add up to 3");
  has(both(tensor({1, 2, 3}), {}), "ShapeError");
  EXPECT_THROW(two.repeat_interleave(tensor({1, 2}), 0), DeviceError);
  EXPECT_THROW(two.cpu().repeat_interleave(tensor({1, 2}).to(kGpu), 0), DeviceError);
  // A length that is told and wrong is found by the device, and told by the next call that waits.
  for (const int64_t length : {2, 4})
    EXPECT_THROW(two.repeat_interleave(tensor({1, 2}).to(kGpu), 0, length).cpu(), IndexError) << length;
  EXPECT_THROW(two.repeat_interleave(tensor({4, -1}).to(kGpu), 0, 3).cpu(), IndexError);
  EXPECT_EQ(two.repeat_interleave(tensor({1, 2}).to(kGpu), 0, 3).sum().item<double>(), 9);

  Tensor leaf = facula::ones({3}, kGpu).requires_grad_();
  leaf.repeat_interleave(tensor({2, 0, 3}).to(kGpu), 0).sum().backward();
  expect_equal(leaf.grad(), tensor({2.0, 0.0, 3.0}).to(kFloat), "gradient of repeat_interleave");
}

TEST_F(GpuPrimitives, UniqueAndRuns) {
  const Tensor x = randint(300, {5000});
  const auto [v, i, c] = unique(x, true, true, true);
  const auto [gv, gi, gc] = unique(x.to(kGpu), true, true, true);
  expect_equal(gv, v, "unique");
  expect_equal(gi, i, "unique, inverse");
  expect_equal(gc, c, "unique, counts");
  const Tensor rows = randint(3, {700, 4});
  const auto [rv, ri, rc] = unique_dim(rows, 0, true, true, true);
  const auto [grv, gri, grc] = unique_dim(rows.to(kGpu), 0, true, true, true);
  expect_equal(grv, rv, "unique_dim");
  expect_equal(gri, ri, "unique_dim, inverse");
  expect_equal(grc, rc, "unique_dim, counts");
}

// ---- scans --------------------------------------------------------------------------------------------------------------------

TEST_F(GpuPrimitives, ScansOfLinesOfEveryLength) {
  for (const int64_t n : {1, 7, 1030, 40000}) {
    const Tensor whole = randint(-4, 5, {2, n});
    expect_equal(whole.to(kGpu).cumsum(1), whole.cumsum(1), words("cumsum", kLong, whole.sizes()));
    const Tensor x = randn({2, n}), up = x.abs() * 0.01 + 0.995;
    expect_close(x.to(kGpu).cumsum(1), x.cumsum(1), words("cumsum", kFloat, x.sizes()), 20);
    expect_close(up.to(kDouble).to(kGpu).cumprod(1), up.to(kDouble).cumprod(1), words("cumprod", kDouble, x.sizes()),
                 100);
    expect_close(x.to(kGpu).logcumsumexp(1), x.logcumsumexp(1), words("logcumsumexp", kFloat, x.sizes()));
    for (const bool most : {true, false}) {
      const Tensor rounded = (x * 3).round();
      const auto [v, i] = most ? rounded.cummax(1) : rounded.cummin(1);
      const auto [gv, gi] = most ? rounded.to(kGpu).cummax(1) : rounded.to(kGpu).cummin(1);
      expect_equal(gv, v, words("cummax", kFloat, x.sizes(), most));
      expect_equal(gi, i, words("cummax, place", kFloat, x.sizes(), most));
    }
    const Tensor columns = randint(-4, 5, {n, 10});
    expect_equal(columns.to(kGpu).cumsum(0), columns.cumsum(0), words("cumsum of columns", kLong, columns.sizes()));
  }
}

// ---- masks, searches, counts ----------------------------------------------------------------------------------------------------

TEST_F(GpuPrimitives, MasksOfSeveralTiles) {
  const Tensor x = randn({97, 131}), mask = rand({97, 131}) < 0.3;
  expect_equal(x.to(kGpu).masked_select(mask.to(kGpu)), x.masked_select(mask), "masked_select");
  expect_equal(mask.to(kGpu).nonzero(), mask.nonzero(), "nonzero");
  const Tensor source = randn({97 * 131});
  expect_equal(x.to(kGpu).masked_scatter(mask.to(kGpu), source.to(kGpu)), x.masked_scatter(mask, source),
               "masked_scatter");
  expect_equal(zeros({0, 3}).to(kGpu).nonzero(), zeros({0, 3}).nonzero(), "nonzero of nothing");
}

TEST_F(GpuPrimitives, SearchesAndCounts) {
  const Tensor edges = std::get<0>(randn({500}).sort()), x = randn({3000});
  for (const bool right : {false, true})
    expect_equal(searchsorted(edges.to(kGpu), x.to(kGpu), false, right), searchsorted(edges, x, false, right),
                 "search");
  const Tensor unordered = randn({500}), order = unordered.argsort();
  expect_equal(searchsorted(unordered.to(kGpu), x.to(kGpu), false, false, std::nullopt, order.to(kGpu)),
               searchsorted(unordered, x, false, false, std::nullopt, order), "search by a sorter");
  const Tensor numbers = randint(900, {20000}), tests = randint(900, {60});
  expect_equal(isin(numbers.to(kGpu), tests.to(kGpu)), isin(numbers, tests), "isin");
  expect_equal(bincount(numbers.to(kGpu)), bincount(numbers), "bincount");
  expect_equal(bincount(numbers.mul(20).to(kGpu)), bincount(numbers.mul(20)), "bincount of many bins");
  const Tensor weights = rand({20000}, kDouble);
  expect_close(bincount(numbers.to(kGpu), weights.to(kGpu)), bincount(numbers, weights), "weighted bincount");
  expect_equal(histc(x.to(kGpu), 40, -2, 2), histc(x, 40, -2, 2), "histc");
  expect_equal(histc(x.to(kGpu), 40, 0, 0), histc(x, 40, 0, 0), "histc of the range of the data");
}

}  // namespace
}  // namespace facula::testing
