// Graphs: what is captured, their memory, their random numbers, and what must not happen in a capture.
#include "core/tensor_impl.h"
#include "error_text.h"
#include "gpu/memory/allocator.h"
#include "gpu/encoder.h"
#include "gpu/graph.h"

#include <facula/cuda.h>
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace facula::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Device kGpu("cuda:0");

Tensor numbers(const std::vector<int64_t>& values) {
  Tensor made = empty({static_cast<int64_t>(values.size())}, TensorOptions(kLong).device(kGpu));
  StorageImpl* storages[] = {made.storage().impl()};
  gpu::copy_to_device(made.data_ptr(), values.data(), made.nbytes(), true, {"test", 0, storages});
  return made;
}

std::vector<int64_t> values_of(const Tensor& t) {
  std::vector<int64_t> values(static_cast<size_t>(t.numel()));
  StorageImpl* storages[] = {t.storage().impl()};
  gpu::copy_to_host(values.data(), t.data_ptr(), t.nbytes(), true, {"test", 0, storages});
  return values;
}

// out = in * 2 + 1
void step(const Tensor& out, const Tensor& in) {
  static auto* kernel = new cuda::Kernel(R"(
extern "C" __global__ void step(long long* out, const long long* in) { out[threadIdx.x] = in[threadIdx.x] * 2 + 1; }
)",
                                         "step");
  kernel->launch({1}, {static_cast<uint32_t>(in.numel())}, 0, out, in);
}

Tensor like(const Tensor& t) { return empty(t.sizes(), t.options()); }

TEST(GpuGraph, ReplaysWithNewInputs) {
  const Tensor in = numbers({1, 2, 3}), out = like(in);
  step(out, in);  // compiles before the capture
  cuda::CUDAGraph graph;
  {
    cuda::GraphCapture capture(graph);
    EXPECT_TRUE(cuda::is_current_stream_capturing());
    Tensor between = like(in);
    step(between, in);
    step(out, between);
  }
  EXPECT_FALSE(cuda::is_current_stream_capturing());
  for (int64_t start : {5, -7, 100}) {
    const Tensor fresh = numbers({start, start + 1, start + 2});
    gpu::copy_on_device(in.data_ptr(), fresh.data_ptr(), in.nbytes(), {"test", 0});
    graph.replay();
    EXPECT_EQ(values_of(out), (std::vector<int64_t>{start * 4 + 3, start * 4 + 7, start * 4 + 11}));
  }
}

TEST(GpuGraph, NothingRunsDuringTheCapture) {
  const Tensor in = numbers({4}), out = numbers({-1});
  step(like(in), in);
  cuda::CUDAGraph graph;
  {
    cuda::GraphCapture capture(graph);
    step(out, in);
  }
  EXPECT_EQ(values_of(out), (std::vector<int64_t>{-1}));
  graph.replay();
  EXPECT_EQ(values_of(out), (std::vector<int64_t>{9}));
}

TEST(GpuGraph, KeepsItsMemoryToItself) {
  const Tensor in = numbers({1, 2});
  step(like(in), in);
  cuda::CUDAGraph graph;
  Tensor out;
  void* freed_inside = nullptr;
  {
    cuda::GraphCapture capture(graph);
    {
      Tensor between = like(in);
      freed_inside = between.data_ptr();
      step(between, in);
      out = like(in);
      step(out, between);
    }
  }
  // Nobody outside gets the memory of what was dropped inside.
  std::vector<Tensor> others;
  for (int i = 0; i < 50; ++i) {
    others.push_back(numbers({0, 0}));
    EXPECT_NE(others.back().data_ptr(), freed_inside);
  }
  graph.replay();
  EXPECT_EQ(values_of(out), (std::vector<int64_t>{7, 11}));
  for (const Tensor& t : others) EXPECT_EQ(values_of(t), (std::vector<int64_t>{0, 0}));
}

TEST(GpuGraph, SharesPools) {
  const Tensor in = numbers({1});
  step(like(in), in);
  cuda::CUDAGraph first, second;
  Tensor middle, out;
  {
    cuda::GraphCapture capture(first, cuda::graph_pool_handle());
    middle = like(in);
    step(middle, in);
  }
  {
    cuda::GraphCapture capture(second, first.pool());
    out = like(in);
    step(out, middle);
  }
  EXPECT_EQ(first.pool(), second.pool());
  EXPECT_NE(middle.data_ptr(), out.data_ptr());
  first.replay();
  second.replay();
  EXPECT_EQ(values_of(out), (std::vector<int64_t>{7}));
}

TEST(GpuGraph, FollowsOtherStreamsThatJoin) {
  const Tensor in = numbers({3}), out = like(in);
  step(out, in);
  cuda::CUDAGraph graph;
  {
    cuda::GraphCapture capture(graph);
    const cuda::CUDAStream mine = cuda::getCurrentCUDAStream(), side = cuda::getStreamFromPool();
    side.wait_stream(mine);
    {
      cuda::CUDAStreamGuard guard(side);
      EXPECT_TRUE(cuda::is_current_stream_capturing());
      Tensor between = like(in);
      step(between, in);
      step(out, between);
    }
    mine.wait_stream(side);
  }
  graph.replay();
  EXPECT_EQ(values_of(out), (std::vector<int64_t>{15}));
}

TEST(GpuGraph, RefusesWhatCannotBeCaptured) {
  const Tensor in = numbers({3});
  step(like(in), in);
  cuda::CUDAGraph graph;
  EXPECT_THAT(error_of<DeviceError>([&] { graph.capture_begin(); }),
              HasSubstr("the default stream cannot be captured"));
  EXPECT_THAT(error_of<DeviceError>([&] { graph.replay(); }), HasSubstr("nothing to launch"));
  EXPECT_THAT(error_of<DeviceError>([&] { graph.capture_end(); }), HasSubstr("is not being captured"));
  EXPECT_THAT(error_of<DeviceError>([&] { graph.pool(); }), HasSubstr("no pool"));
  const Tensor out = like(in);
  cuda::CUDAEvent event;
  event.record();
  // Ops whose result the host must see, or whose size depends on values. They compile before the capture.
  const Tensor counts = numbers({2, 0, 2, 1}), mask = counts.ne(0);
  const std::pair<const char*, std::function<void()>> waiting[] = {
      {"nonzero: ", [&] { counts.nonzero(); }},
      {"nonzero: ", [&] { mask.nonzero(); }},
      {"masked_select: ", [&] { counts.masked_select(mask); }},
      {"unique", [&] { unique(counts, true, true, true); }},
      {"item: ", [&] { counts.equal(mask.to(kLong)); }},
      {"item: ", [&] { static_cast<void>(counts.sum().item<int64_t>()); }},
      {"item: ", [&] { counts.repeat_interleave(counts); }},
  };
  for (const auto& [words, call] : waiting) call();
  {
    cuda::GraphCapture capture(graph);
    int64_t value = 0;
    for (const auto& [words, call] : waiting)
      EXPECT_THAT(error_of<DeviceError>(call),
                  AllOf(StartsWith(words), HasSubstr("waits for the GPU"), HasSubstr("captured")));
    // Emptying the caches is no error, and takes no memory away that the capture has.
    const Tensor kept = like(in);
    {
      const Tensor dropped = like(in);
      step(dropped, in);
    }
    cuda::empty_cache();
    step(kept, in);
    EXPECT_TRUE(cuda::is_current_stream_capturing());
    EXPECT_THAT(error_of<DeviceError>([&] {
                  gpu::read_small(&value, in.data_ptr(), 8, {"item", 0});
                }),
                AllOf(StartsWith("item: waits for the GPU"), HasSubstr("captured")));
    EXPECT_THAT(error_of<DeviceError>([&] { cuda::synchronize(); }), StartsWith("synchronize: "));
    EXPECT_THAT(error_of<DeviceError>([&] { cuda::getCurrentCUDAStream().synchronize(); }), HasSubstr("captured"));
    EXPECT_THAT(error_of<DeviceError>([&] { cuda::getCurrentCUDAStream().query(); }),
                AllOf(StartsWith("Stream.query: "), HasSubstr("captured")));
    EXPECT_THAT(error_of<DeviceError>([&] { event.synchronize(); }),
                AllOf(StartsWith("Event.synchronize: "), HasSubstr("captured")));
    EXPECT_THAT(error_of<DeviceError>([&] { event.query(); }),
                AllOf(StartsWith("Event.query: "), HasSubstr("captured")));
    EXPECT_THAT(error_of<DeviceError>([&] { in.cpu(); }), AllOf(StartsWith("copy_: "), HasSubstr("captured")));
    EXPECT_THAT(error_of<DeviceError>([&] { static_cast<void>(in.item<int64_t>()); }),
                AllOf(StartsWith("item: "), HasSubstr("captured")));
    EXPECT_THAT(error_of<DeviceError>([&] {
                  gpu::copy_to_device(in.data_ptr(), &value, 8, true, {"copy_", 0});
                }),
                AllOf(StartsWith("copy_: "), HasSubstr("page-locked")));
    cuda::CUDAGraph nested;
    EXPECT_THAT(error_of<DeviceError>([&] { nested.capture_begin(); }), HasSubstr("cannot be nested"));
    // Another thread cannot wait for the device either, and does not break the capture by trying.
    std::thread([] {
      EXPECT_THAT(error_of<DeviceError>([] { cuda::synchronize(); }), HasSubstr("is captured into a graph"));
    }).join();
    step(out, kept);
  }
  // None of these has broken it.
  graph.replay();
  EXPECT_EQ(values_of(out), (std::vector<int64_t>{15}));
  for (const auto& [words, call] : waiting) call();  // and all work again
  EXPECT_THAT(error_of<DeviceError>([&] {
                cuda::CUDAStreamGuard guard(cuda::getStreamFromPool());
                graph.capture_begin();
              }),
              HasSubstr("was captured before"));
}

TEST(GpuGraph, BrokenCapturesEndWithWords) {
  const Tensor in = numbers({3});
  step(like(in), in);
  const int64_t before = cuda::memory_allocated();
  cuda::CUDAGraph graph;
  {
    cuda::CUDAStreamGuard guard(cuda::getStreamFromPool());
    graph.capture_begin();
    Tensor lost = like(in);
    // Work that goes to another stream and does not come back.
    const cuda::CUDAStream side = cuda::getStreamFromPool();
    side.wait_stream(cuda::getCurrentCUDAStream());
    {
      cuda::CUDAStreamGuard inner(side);
      step(lost, in);
    }
    EXPECT_THAT(error_of<DeviceError>([&] { graph.capture_end(); }),
                AllOf(StartsWith("capture_end: "), HasSubstr("The capture was broken")));
  }
  EXPECT_EQ(gpu::active_captures.load(), 0);
  cuda::synchronize();
  EXPECT_EQ(cuda::memory_allocated(), before);
  // The graph can be used again.
  const Tensor out = like(in);
  {
    cuda::GraphCapture capture(graph);
    step(out, in);
  }
  graph.replay();
  EXPECT_EQ(values_of(out), (std::vector<int64_t>{7}));
}

TEST(GpuGraph, ExceptionsEndTheCapture) {
  cuda::CUDAGraph graph;
  EXPECT_THROW(
      {
        cuda::GraphCapture capture(graph);
        throw ValueError("test: not today");
      },
      ValueError);
  EXPECT_EQ(gpu::active_captures.load(), 0);
  EXPECT_EQ(cuda::getCurrentCUDAStream(), cuda::getDefaultCUDAStream());
  cuda::synchronize();
}

TEST(GpuGraph, AllModes) {
  const Tensor in = numbers({1});
  step(like(in), in);
  for (cuda::CaptureMode mode :
       {cuda::CaptureMode::Global, cuda::CaptureMode::ThreadLocal, cuda::CaptureMode::Relaxed}) {
    cuda::CUDAGraph graph;
    Tensor out;
    {
      cuda::GraphCapture capture(graph, {0, 0}, mode);
      // More memory than is kept, so that the driver is asked in the capture.
      Tensor large = empty({int64_t{6} << 20}, TensorOptions(kLong).device(kGpu));
      out = like(in);
      step(out, in);
    }
    graph.replay();
    EXPECT_EQ(values_of(out), (std::vector<int64_t>{3}));
  }
}

TEST(GpuGraph, ResetGivesMemoryBack) {
  const Tensor in = numbers({1});
  step(like(in), in);
  cuda::empty_cache();
  const int64_t before = cuda::memory_reserved();
  cuda::CUDAGraph graph;
  {
    cuda::GraphCapture capture(graph);
    Tensor large = empty({int64_t{4} << 20}, TensorOptions(kLong).device(kGpu));
  }
  EXPECT_GT(cuda::memory_reserved(), before);
  cuda::empty_cache();
  EXPECT_GT(cuda::memory_reserved(), before);  // the graph's own is not cache
  graph.reset();
  cuda::empty_cache();
  EXPECT_EQ(cuda::memory_reserved(), before);
}

TEST(GpuGraph, WritesItself) {
  const Tensor in = numbers({1}), out = like(in);
  step(out, in);
  cuda::CUDAGraph graph;
  EXPECT_THAT(error_of<DeviceError>([&] { graph.debug_dump("/tmp/none.dot"); }), HasSubstr("enable_debug_mode"));
  graph.enable_debug_mode();
  {
    cuda::GraphCapture capture(graph);
    step(out, in);
  }
  const std::string path = ::testing::TempDir() + "facula_graph_" + std::to_string(getpid()) + ".dot";
  graph.debug_dump(path);
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("digraph"));
  std::remove(path.c_str());
}

// Random numbers.

// Writes {seed, offset} of where a kernel would draw.
void write_place(const Tensor& out, GeneratorImpl& generator, uint64_t blocks) {
  static auto* kernel = new gpu::Kernel("write_place", R"(
extern "C" __global__ void write_place(unsigned long long* out, unsigned long long seed, unsigned long long offset,
                                       const unsigned long long* pair, unsigned long long offset_in_graph) {
  out[0] = pair ? pair[0] : seed;
  out[1] = pair ? pair[1] + offset_in_graph : offset;
}
)");
  gpu::RandomPlace place = gpu::random_place(generator, blocks, 0, "test");
  void* to = out.data_ptr();
  void* arguments[] = {&to, &place.seed, &place.offset, &place.device_pair, &place.offset_in_graph};
  StorageImpl* storages[] = {out.storage().impl()};
  gpu::launch(*kernel, {1, 1, 1}, {1, 1, 1}, 0, arguments, {"test", 0, storages});
}

TEST(GpuGraph, RandomNumbersGoOn) {
  Generator generator = make_generator(42, kGpu);
  GeneratorImpl& state = *generator.impl();
  const Tensor first = numbers({0, 0}), second = numbers({0, 0});
  write_place(first, state, 3);
  EXPECT_EQ(values_of(first), (std::vector<int64_t>{42, 0}));
  cuda::CUDAGraph graph;
  {
    cuda::GraphCapture capture(graph);
    write_place(first, state, 10);
    write_place(second, state, 5);
  }
  EXPECT_EQ(generator.offset(), 3u);  // a capture draws nothing
  graph.replay();
  EXPECT_EQ(values_of(first), (std::vector<int64_t>{42, 3}));
  EXPECT_EQ(values_of(second), (std::vector<int64_t>{42, 13}));
  write_place(second, state, 1);
  EXPECT_EQ(values_of(second), (std::vector<int64_t>{42, 18}));
  graph.replay();
  EXPECT_EQ(values_of(first), (std::vector<int64_t>{42, 19}));
  EXPECT_EQ(values_of(second), (std::vector<int64_t>{42, 29}));
  generator.set_current_seed(7);
  graph.replay();
  EXPECT_EQ(values_of(first), (std::vector<int64_t>{7, 0}));
  EXPECT_EQ(values_of(second), (std::vector<int64_t>{7, 10}));
}

// The first draw comes after memory was freed in the capture: a kernel before it writes there at every launch.
TEST(GpuGraph, RandomPlaceIsNotInMemoryThatTheGraphWrites) {
  Generator generator = make_generator(42, kGpu);
  GeneratorImpl& state = *generator.impl();
  const Tensor place = numbers({0, 0}), source = numbers({5, 6, 7, 8});
  static_cast<void>(source + source);  // compiles before the capture
  write_place(place, state, 1);
  cuda::CUDAGraph graph;
  {
    cuda::GraphCapture capture(graph);
    for (int i = 0; i < 4; ++i) static_cast<void>(source + source);
    write_place(place, state, 10);
  }
  for (int64_t launch = 0; launch < 3; ++launch) {
    graph.replay();
    EXPECT_EQ(values_of(place), (std::vector<int64_t>{42, 1 + 10 * launch}));
  }
}

TEST(GpuGraph, RandomOpsReplayAsEager) {
  const auto draw = [] { return randn({1000}, TensorOptions(kFloat).device(kGpu)); };
  manual_seed(5);
  draw();  // compiles before the capture
  std::vector<Tensor> eager;
  manual_seed(5);
  for (int i = 0; i < 3; ++i) eager.push_back(draw());
  cuda::CUDAGraph graph;
  Tensor out;
  {
    cuda::GraphCapture capture(graph);
    out = draw();
  }
  manual_seed(5);
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    EXPECT_TRUE(equal(out.cpu(), eager[static_cast<size_t>(i)].cpu())) << "launch " << i;
  }
}

// Whole functions.

TEST(GpuGraph, GraphedCallableComputesAndDifferentiates) {
  const auto options = TensorOptions(kFloat).device(kGpu);
  manual_seed(1);
  const Tensor weight = randn({8, 4}, options).requires_grad_();
  const auto function = [&](const std::vector<Tensor>& in) {
    const Tensor hidden = (in[0].unsqueeze(-1) * weight).sum(1);
    return std::vector<Tensor>{hidden.tanh(), hidden.detach() + 1};
  };
  cuda::GraphedOptions graphed_options;
  graphed_options.parameters = {weight};
  const auto graphed =
      cuda::make_graphed_callable(function, {randn({3, 8}, options).requires_grad_()}, graphed_options);
  for (int i = 0; i < 3; ++i) {
    const Tensor x = randn({3, 8}, options).requires_grad_(), y = x.detach().clone().requires_grad_();
    const std::vector<Tensor> a = graphed({x}), b = function({y});
    ASSERT_EQ(a.size(), 2u);
    EXPECT_TRUE(allclose(a[0].cpu(), b[0].cpu()));
    EXPECT_TRUE(allclose(a[1].cpu(), b[1].cpu()));
    EXPECT_TRUE(a[0].requires_grad());
    EXPECT_FALSE(a[1].requires_grad());
    const Tensor direction = randn({3, 4}, options);
    weight.mutable_grad() = Tensor();
    a[0].backward(direction);
    const Tensor weight_grad = weight.grad();
    weight.mutable_grad() = Tensor();
    b[0].backward(direction);
    EXPECT_TRUE(allclose(x.grad().cpu(), y.grad().cpu()));
    EXPECT_TRUE(allclose(weight_grad.cpu(), weight.grad().cpu()));
  }
  EXPECT_THAT(error_of<ValueError>([&] { graphed({randn({2, 8}, options)}); }), HasSubstr("must be like its sample"));
  EXPECT_THAT(error_of<ValueError>([&] { graphed({}); }), HasSubstr("expected 1 inputs"));
  NoGradGuard no_grad;
  EXPECT_FALSE(graphed({randn({3, 8}, options)})[0].requires_grad());
}

TEST(GpuGraph, GraphedCallableRefusesTheCpu) {
  const auto same = [](const std::vector<Tensor>& in) { return in; };
  EXPECT_THAT(error_of<DeviceError>([&] { cuda::make_graphed_callable(same, {ones({2})}); }),
              AllOf(StartsWith("make_graphed_callable: sample input 0"), HasSubstr("cpu")));
}

}  // namespace
}  // namespace facula::testing
