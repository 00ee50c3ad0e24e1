// Batch norm on a GPU against the CPU in double precision: planes and rows of channels, drawn shapes, memory that is
// not aligned, statistics far from zero, running statistics of every kind.
#include "closeness.h"

#include <random>
#include <vector>

namespace facula::testing {
namespace {

class GpuBatchNorm : public ::testing::Test {
 protected:
  void SetUp() override {
    manual_seed(test_seed());
    random_.seed(static_cast<std::mt19937::result_type>(test_seed()));
  }
  int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[random_() % from.size()]; }
  bool coin() { return random_() % 2 == 0; }
  std::mt19937 random_;
};

struct Case {
  ScalarType dtype;
  std::vector<int64_t> sizes;
  bool last;
  int64_t shift;
};

// `t` with channels innermost or not, `shift` elements after the beginning of its memory.
Tensor laid(const Tensor& t, bool last, int64_t shift) {
  const Tensor like = last ? t.contiguous(MemoryFormat::ChannelsLast) : t.contiguous();
  Tensor room = empty({t.numel() + shift}, t.options());
  return room.as_strided(like.sizes(), like.strides(), shift).copy_(like);
}
// The same on the GPU, with the same place in memory.
Tensor there(const Tensor& t) {
  const int64_t shift = t.storage_offset();
  Tensor room = empty({t.numel() + shift}, t.options().device(kGpu));
  Tensor view = room.as_strided(t.sizes(), t.strides(), shift);
  room.copy_(t.as_strided({t.numel() + shift}, {1}, 0));
  return view;
}

ScalarType statistics_dtype(ScalarType t) { return t == kDouble ? kDouble : kFloat; }

void check(const Case& c, bool training, bool affine, double center = 0.3, double spread = 1.5, double loose = 1) {
  const std::string what =
      words(std::string("batch_norm ") + (c.last ? "rows " : "planes ") + (training ? "training" : "evaluation"),
            c.dtype, c.sizes, c.shift);
  const int64_t channels = c.sizes[1];
  const ScalarType stats = statistics_dtype(c.dtype);
  const Tensor x = laid((randn(c.sizes) * spread + center).to(c.dtype), c.last, c.shift);
  const Tensor g = laid(randn(c.sizes).to(c.dtype), c.last, c.shift);
  const std::optional<Tensor> none;
  const auto weight = affine ? std::optional(randn({channels}, stats)) : none;
  const auto bias = affine ? std::optional(randn({channels}, stats)) : none;
  const Tensor mean = randn({channels}, stats), variance = rand({channels}, stats) + 0.5;
  const auto wide = [](const std::optional<Tensor>& t) { return t ? std::optional(t->to(kDouble)) : t; };
  const auto on_gpu = [](const std::optional<Tensor>& t) { return t ? std::optional(t->to(kGpu)) : t; };
  Tensor true_mean = mean.to(kDouble, false, true), true_variance = variance.to(kDouble, false, true);
  Tensor moved_mean = mean.to(kGpu), moved_variance = variance.to(kGpu);

  const auto [y, m, r] =
      native_batch_norm(x.to(kDouble), wide(weight), wide(bias), true_mean, true_variance, training, 0.2, 1e-5);
  const auto [got_y, got_m, got_r] =
      native_batch_norm(there(x), on_gpu(weight), on_gpu(bias), moved_mean, moved_variance, training, 0.2, 1e-5);
  expect_close(got_y, y.to(c.dtype), what, 2 * loose);
  EXPECT_EQ(got_y.strides(), (c.last ? x.contiguous(MemoryFormat::ChannelsLast) : x.contiguous()).strides()) << what;
  expect_close(got_m, m.to(stats), what + ", mean");
  expect_close(got_r, r.to(stats), what + ", inverse deviation", loose);
  expect_close(moved_mean, true_mean.to(stats), what + ", running mean");
  expect_close(moved_variance, true_variance.to(stats), what + ", running variance", loose);

  const auto [gi, gw, gb] = _batch_norm_backward(g.to(kDouble), x.to(kDouble), wide(weight), m, r, training);
  const auto [got_gi, got_gw, got_gb] =
      _batch_norm_backward(there(g), there(x), on_gpu(weight), got_m, got_r, training);
  expect_close(got_gi, gi.to(c.dtype), what + ", gradient", 2 * loose);
  expect_close(got_gw, gw.to(stats), what + ", gradient of the weight", 10 * loose);
  expect_close(got_gb, gb.to(stats), what + ", gradient of the bias", 10 * loose);
}

TEST_F(GpuBatchNorm, DrawnShapes) {
  SCOPED_TRACE(seed_text());
  for (int k = 0; k < 24; ++k) {
    Case c;
    c.dtype = std::initializer_list<ScalarType>{kFloat, kBFloat16, kHalf, kDouble}.begin()[k % 4];
    c.last = coin();
    c.sizes = {pick({1, 2, 3, 7}), pick({1, 2, 3, 5, 8, 24, 33, 64}), pick({1, 3, 7, 14}), pick({2, 5, 7, 16, 31})};
    c.shift = pick({0, 0, 1, 2, 4, 8});
    check(c, coin(), coin());
  }
}

TEST_F(GpuBatchNorm, ShapesThatChooseBetweenKernels) {
  for (const Case& c : {Case{kFloat, {40, 70}, false, 0},             // no space: rows
                        Case{kBFloat16, {300, 264}, false, 0},        // two tiles of packs of eight
                        Case{kBFloat16, {5, 520, 3, 3}, true, 0},     // three tiles
                        Case{kFloat, {3, 4, 40, 50}, true, 0},        // many rows of few channels
                        Case{kBFloat16, {2, 3, 60, 33}, true, 1},     // single elements
                        Case{kFloat, {70, 3, 7, 7}, false, 0},        // planes that small teams share
                        Case{kBFloat16, {2, 2, 150, 140}, false, 0},  // planes cut in stretches
                        Case{kHalf, {1, 1, 190, 197}, false, 3}, Case{kDouble, {3, 2, 9, 17}, false, 1}})
    for (const bool training : {true, false}) check(c, training, true);
}

TEST_F(GpuBatchNorm, StatisticsFarFromZero) {
  // What float can say of a mean of 1000 is an error of 6e-5 of it, which a deviation of 0.1 makes 6e-4 of the result.
  for (const bool last : {true, false}) check({kFloat, {4, 6, 30, 31}, last, 0}, true, true, 1000, 0.1, 60);
}

TEST_F(GpuBatchNorm, TheSameBitsAgain) {
  for (const bool last : {true, false}) {
    const Tensor x = there(laid(randn({6, 5, 40, 41}), last, 0)), g = there(laid(randn({6, 5, 40, 41}), last, 0));
    const auto once = native_batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5);
    const auto again = native_batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5);
    expect_equal(std::get<0>(again), std::get<0>(once).cpu(), "batch_norm again");
    const auto a = _batch_norm_backward(g, x, {}, std::get<1>(once), std::get<2>(once), true);
    const auto b = _batch_norm_backward(g, x, {}, std::get<1>(once), std::get<2>(once), true);
    expect_equal(std::get<0>(b), std::get<0>(a).cpu(), "batch_norm backward again");
    expect_equal(std::get<1>(b), std::get<1>(a).cpu(), "gradient of the weight again");
  }
}

TEST_F(GpuBatchNorm, RunningStatisticsInTheirOwnMemory) {
  // Narrow ones, and every second number of a longer tensor.
  const Tensor x = randn({4, 6, 5, 5}).to(kHalf);
  for (const ScalarType t : {kHalf, kFloat}) {
    const Tensor start = rand({12}).to(t);
    Tensor host = start.clone(), device = start.to(kGpu);
    Tensor host_mean = host.slice(0, 0, 12, 2), host_var = host.slice(0, 1, 12, 2);
    Tensor device_mean = device.slice(0, 0, 12, 2), device_var = device.slice(0, 1, 12, 2);
    const auto before = device_mean._version();
    batch_norm(x, {}, {}, host_mean, host_var, true, 0.3, 1e-5);
    batch_norm(x.to(kGpu), {}, {}, device_mean, device_var, true, 0.3, 1e-5);
    EXPECT_GT(device_mean._version(), before);
    EXPECT_FALSE(host.equal(start));
    expect_close(device, host, "running statistics");
  }
}

TEST_F(GpuBatchNorm, AModuleLearnsAlike) {
  const auto train = [](nn::BatchNorm2d norm, const Tensor& input, const Tensor& by) {
    Tensor x = input.detach();
    x.requires_grad_();
    (norm->forward(x) * by).sum().backward();
    return x.grad();
  };
  const Tensor x = randn({3, 8, 6, 5}), by = randn({3, 8, 6, 5});
  nn::BatchNorm2d host(8), device(8);
  {
    NoGradGuard no_grad;
    host->weight.uniform_(0.5, 2);
    device->weight.copy_(host->weight);
  }
  host->to(kDouble);
  device->to(kGpu);
  for (int step = 0; step < 2; ++step) {
    const Tensor expected = train(host, x.to(kDouble), by.to(kDouble));
    const Tensor got = train(device, x.to(kGpu).contiguous(MemoryFormat::ChannelsLast), by.to(kGpu));
    expect_close(got, expected.to(kFloat), "gradient of the input", 4);
  }
  expect_close(device->weight.grad(), host->weight.grad().to(kFloat), "gradient of the weight", 10);
  expect_close(device->bias.grad(), host->bias.grad().to(kFloat), "gradient of the bias", 10);
  expect_close(device->running_var, host->running_var.to(kFloat), "running variance");
  host->eval();
  device->eval();
  expect_close(train(device, x.to(kGpu), by.to(kGpu)), train(host, x.to(kDouble), by.to(kDouble)).to(kFloat),
               "evaluation");
}

}  // namespace
}  // namespace facula::testing
