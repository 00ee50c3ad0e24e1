// Programs over many tensors at once on a GPU: optimizers, norms and clipping of lists of every length against the CPU
// in double precision, and how many launches they take.
#include "closeness.h"
#include "gpu/kernel.h"
#include "ops/foreach.h"

#include <facula/cuda.h>
#include <facula/nn/utils.h>

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>
#include <vector>

namespace facula::testing {
namespace {

class GpuForeach : public ::testing::Test {
 protected:
  void SetUp() override {
    manual_seed(test_seed());
    random_.seed(static_cast<std::mt19937::result_type>(test_seed()));
  }
  // Tensors of drawn sizes, some of which begin where packs may not.
  std::vector<Tensor> drawn(size_t count, ScalarType dtype = kFloat) {
    std::vector<Tensor> all;
    for (size_t i = 0; i < count; ++i) {
      const auto size = static_cast<int64_t>(i == 3 ? 9000 : 1 + random_() % 700);
      all.push_back(randn({size}).to(dtype));
    }
    return all;
  }
  std::mt19937 random_;
};

std::vector<Tensor> on_gpu(const std::vector<Tensor>& list) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < list.size(); ++i) all.push_back(shifted(list[i].to(kGpu), i % 7 == 5 ? 1 : 0));
  return all;
}
std::vector<Tensor> in_double(const std::vector<Tensor>& list) {
  std::vector<Tensor> all;
  for (const Tensor& t : list) all.push_back(t.to(kDouble));
  return all;
}

// Kernels over lists that a call queues.
int list_launches(const std::function<void()>& call) {
  call();  // kernels are compiled outside of captures
  cuda::CUDAGraph graph;
  graph.enable_debug_mode();
  {
    cuda::GraphCapture capture(graph);
    call();
  }
  const std::string path = ::testing::TempDir() + "facula_lists_" + std::to_string(getpid()) + ".dot";
  graph.debug_dump(path);
  std::ifstream file(path);
  int found = 0;
  // A node's label begins with its number; its name follows behind that or in the next line.
  bool labelled = false;
  for (std::string line; std::getline(file, line);) {
    const bool label = line.find("label") != std::string::npos;
    found += (label || labelled) && line.find("list") != std::string::npos;
    labelled = label;
  }
  std::remove(path.c_str());
  return found;
}

TEST_F(GpuForeach, AdamWOverListsOfEveryLength) {
  SCOPED_TRACE(seed_text());
  for (const size_t count : {size_t{1}, size_t{16}, size_t{17}, size_t{148}, size_t{400}}) {
    const std::vector<Tensor> start = drawn(count);
    std::vector<Tensor> truth = in_double(start), params = on_gpu(start);
    optim::AdamW reference(truth, optim::AdamWOptions(0.05).weight_decay(0.1)),
        tested(params, optim::AdamWOptions(0.05).weight_decay(0.1));
    for (int step = 0; step < 2; ++step) {
      for (size_t i = 0; i < count; ++i) {
        const Tensor g = randn(start[i].sizes());
        truth[i].set_grad(g.to(kDouble));
        params[i].set_grad(g.to(kGpu));
      }
      reference.step();
      tested.step();
    }
    for (size_t i = 0; i < count; ++i)
      expect_close(params[i], truth[i].to(kFloat), "parameter " + std::to_string(i) + " of " + std::to_string(count));
  }
}

TEST_F(GpuForeach, NormsAndClippingOfLists) {
  SCOPED_TRACE(seed_text());
  for (const size_t count : {size_t{1}, size_t{30}, size_t{260}})
    for (const ScalarType t : {kFloat, kBFloat16, kDouble})
      for (const double order : {2.0, 1.0, static_cast<double>(INFINITY)}) {
        const std::vector<Tensor> start = drawn(count, t), wide = in_double(start);
        const std::vector<Tensor> grads = on_gpu(start);
        std::vector<Tensor> params;
        for (const Tensor& g : grads) {
          params.push_back(zeros_like(g));
          params.back().set_grad(g);
        }
        std::vector<Tensor> flat;
        for (const Tensor& w : wide) flat.push_back(w.reshape({-1}));
        const double norm = facula::cat(flat).norm(order).item<double>(), most = norm * 0.25;
        EXPECT_NEAR(nn::utils::clip_grad_norm_(params, most, order), norm, 1e-5 * norm);
        const double factor = most / (norm + 1e-6);
        for (size_t i = 0; i < count; ++i)
          expect_close(params[i].grad(), (wide[i] * factor).to(t), "clipped " + std::to_string(i));
        // Once more: now it is small enough, and nothing changes.
        const Tensor before = params[0].grad().cpu();
        nn::utils::clip_grad_norm_(params, norm, order);
        expect_equal(params[0].grad(), before, "what is small enough");
      }
}

TEST_F(GpuForeach, HowManyLaunches) {
  const std::vector<Tensor> params = on_gpu(drawn(148));
  optim::AdamW optimizer(params, optim::AdamWOptions(1e-3));
  for (const Tensor& p : params) p.set_grad(randn(p.sizes()).to(kGpu));
  const bool long_arguments = gpu::argument_bytes(0) > 4096;
  const Tensor factor = full({}, 0.5).to(kGpu);
  std::vector<Tensor> grads;
  for (const Tensor& p : params) grads.push_back(p.grad());
  EXPECT_EQ(list_launches([&] { foreach_scale_(grads, factor, "test"); }), long_arguments ? 1 : 2);
  EXPECT_EQ(list_launches([&] { foreach_norm(grads, 2, "test"); }), 1);
  std::vector<Tensor> many = on_gpu(drawn(400));
  EXPECT_EQ(list_launches([&] { foreach_scale_(many, factor, "test"); }), long_arguments ? 1 : 3);
  // Four addresses and a length for each parameter; the moments are stored where they were loaded.
  EXPECT_EQ(list_launches([&] { optimizer.step(); }), long_arguments ? 1 : 2);
}

}  // namespace
}  // namespace facula::testing
