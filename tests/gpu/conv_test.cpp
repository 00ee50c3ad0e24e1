// Convolutions on a GPU, forward and backward, against the same calls in double precision on the CPU: on shapes that
// choose between kernels, in all dtypes and both memory formats, and on calls that are drawn anew in every run.
#include "cpp/seed.h"
#include "error_text.h"
#include "gpu/libs/dnn.h"
#include "libraries.h"
#include "on_device.h"

#include <facula/cuda.h>
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace facula::testing {
namespace {

using facula_test::seed_text;
using facula_test::test_seed;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Device kGpu("cuda:0");

// Whether the vendor's library takes part.
class DnnScope {
 public:
  explicit DnnScope(bool allow) : before_(gpu::allow_dnn()) { gpu::set_allow_dnn(allow); }
  ~DnnScope() { gpu::set_allow_dnn(before_); }
  DnnScope(const DnnScope&) = delete;

 private:
  bool before_;
};

struct Call {
  ScalarType dtype = kFloat;
  bool channels_last = false, transposed = false, bias = true;
  int64_t batch = 1, inputs = 1, outputs = 1, groups = 1;
  std::vector<int64_t> space, kernel, stride, padding, dilation, more;  // `more` at the end of a transposed one
  int64_t shift = 0;                                                    // elements of memory before the first

  size_t rank() const { return space.size(); }
  std::string text() const {
    std::ostringstream out;
    const auto list = [&](const char* name, const std::vector<int64_t>& values) {
      out << " " << name;
      for (int64_t v : values) out << " " << v;
    };
    out << toString(dtype) << (channels_last ? " channels-last" : "") << (transposed ? " transposed" : "")
        << (bias ? " bias" : "") << " N" << batch << " C" << inputs << " O" << outputs << " groups " << groups;
    list("space", space);
    list("kernel", kernel);
    list("stride", stride);
    list("padding", padding);
    list("dilation", dilation);
    if (transposed) list("more", more);
    if (shift) out << " shift " << shift;
    return out.str();
  }
  std::vector<int64_t> input_sizes() const {
    std::vector<int64_t> sizes = {batch, inputs};
    sizes.insert(sizes.end(), space.begin(), space.end());
    return sizes;
  }
  std::vector<int64_t> weight_sizes() const {
    std::vector<int64_t> sizes = {transposed ? inputs : outputs, (transposed ? outputs : inputs) / groups};
    sizes.insert(sizes.end(), kernel.begin(), kernel.end());
    return sizes;
  }
};

// A call of square images.
Call images(ScalarType dtype, bool channels_last, int64_t batch, int64_t inputs, int64_t outputs, int64_t side,
            int64_t kernel, int64_t stride = 1, int64_t padding = 0, int64_t dilation = 1, int64_t groups = 1) {
  Call c;
  c.dtype = dtype;
  c.channels_last = channels_last;
  c.batch = batch;
  c.inputs = inputs;
  c.outputs = outputs;
  c.groups = groups;
  c.space = {side, side};
  c.kernel = {kernel, kernel};
  c.stride = {stride, stride};
  c.padding = {padding, padding};
  c.dilation = {dilation, dilation};
  c.more = {0, 0};
  return c;
}

Tensor laid_out(const Tensor& t, const Call& c, bool shifted) {
  const MemoryFormat format = !c.channels_last || t.dim() < 4 ? MemoryFormat::Contiguous
                              : t.dim() == 4                  ? MemoryFormat::ChannelsLast
                                                              : MemoryFormat::ChannelsLast3d;
  const Tensor dense = t.contiguous(format);
  if (!shifted || c.shift == 0) return dense;
  Tensor room = zeros({dense.numel() + c.shift}, t.options());
  Tensor there = room.as_strided(dense.sizes(), dense.strides(), c.shift);
  there.copy_(dense);
  return there;
}

struct Results {
  Tensor output, to_input, to_weight, to_bias;
};

Results computed(const Call& c, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& grad) {
  const auto leaf = [](const Tensor& t) {
    if (!t.defined()) return t;
    Tensor own = t.detach();
    return own.requires_grad_(true);
  };
  const Tensor input = leaf(x), weight = leaf(w), bias = leaf(b);
  const Tensor output =
      convolution(input, weight, bias.defined() ? std::optional(bias) : std::nullopt, c.stride, c.padding, c.dilation,
                  c.transposed, c.transposed ? IntArrayRef(c.more) : IntArrayRef(c.padding), c.groups);
  output.backward(grad);
  return {output.detach(), input.grad(), weight.grad(), bias.defined() ? bias.grad() : Tensor()};
}

double tolerance(ScalarType t) {
  switch (t) {
    case kHalf: return 6e-4;
    case kBFloat16: return 5e-3;
    case kDouble: return 1e-13;
    default: return 2e-6;
  }
}

void expect_near(const Tensor& got, const Tensor& want, double most, const std::string& what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const Tensor host = to_host(got).to(kDouble);
  const double off = (host - want).square().sum().sqrt().item<double>();
  const double size = want.square().sum().sqrt().item<double>();
  EXPECT_TRUE(off <= most * std::max(size, 1e-6)) << what << ": the relative error is " << off / size;
}

bool same_bits(const Tensor& a, const Tensor& b) { return to_host(a).equal(to_host(b)); }

void check(const Call& c) {
  SCOPED_TRACE(seed_text());
  SCOPED_TRACE(c.text());
  const Tensor x = laid_out(randn(c.input_sizes()).to(c.dtype), c, true);
  const Tensor w = laid_out(randn(c.weight_sizes()).to(c.dtype), c, false);
  const Tensor b = c.bias ? randn({c.outputs}).to(c.dtype) : Tensor();
  const auto wide = [](const Tensor& t) { return t.defined() ? t.to(kDouble).contiguous() : t; };
  const IntArrayRef more = c.transposed ? IntArrayRef(c.more) : IntArrayRef(c.padding);
  const Tensor shape =
      convolution(wide(x), wide(w), std::nullopt, c.stride, c.padding, c.dilation, c.transposed, more, c.groups);
  const Tensor grad = laid_out(randn(shape.sizes()).to(c.dtype), c, true);
  const Results want = computed(c, wide(x), wide(w), wide(b), wide(grad));
  const Tensor gx = to_gpu(x), gw = to_gpu(w), gb = to_gpu(b), gg = to_gpu(grad);
  const Results got = computed(c, gx, gw, gb, gg);
  const double most = tolerance(c.dtype);
  expect_near(got.output, want.output, most, "output");
  expect_near(got.to_input, want.to_input, most, "gradient of the input");
  expect_near(got.to_weight, want.to_weight, most, "gradient of the weight");
  if (c.bias) expect_near(got.to_bias, want.to_bias, most, "gradient of the bias");
  // With one channel the input lies both ways.
  if (c.channels_last && c.rank() > 1 && !x.is_contiguous()) {
    EXPECT_TRUE(got.output.is_contiguous(c.rank() == 2 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d));
  }
  const Results again = computed(c, gx, gw, gb, gg);
  EXPECT_TRUE(same_bits(got.output, again.output) && same_bits(got.to_input, again.to_input) &&
              same_bits(got.to_weight, again.to_weight))
      << "other bits in a second run";
}

class GpuConvolution : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(test_seed()); }
  DnnScope own_kernels{false};
};

constexpr ScalarType kDtypes[] = {kFloat, kDouble, kHalf, kBFloat16};

// The smaller tiles, filled and not.
TEST_F(GpuConvolution, SmallTiles) {
  for (ScalarType t : kDtypes)
    for (bool last : {false, true}) {
      check(images(t, last, 3, 24, 40, 9, 3, 2, 1));
      check(images(t, last, 1, 5, 12, 8, 3));
    }
}

// Enough places and channels for the largest ones: for the output and the weight's gradient, then for the input's.
TEST_F(GpuConvolution, LargeTiles) {
  for (ScalarType t : {kFloat, kBFloat16}) {
    check(images(t, true, 8, 8, 72, 16, 3, 1, 1));
    for (bool last : {false, true}) check(images(t, last, 4, 72, 8, 16, 1));
  }
}

// The smallest tiles that tensor cores have, with channels in whole chunks and not.
TEST_F(GpuConvolution, ChunksOfChannels) {
  for (ScalarType t : {kHalf, kBFloat16})
    for (int64_t inputs : {3, 8, 20, 32}) check(images(t, true, 2, inputs, 24, 7, 3, 1, 1));
  Call c = images(kHalf, true, 2, 16, 16, 6, 3, 1, 1);
  c.shift = 1;  // rows that begin between the addresses that chunks begin at
  check(c);
}

TEST_F(GpuConvolution, PointwiseIsAProduct) {
  for (ScalarType t : kDtypes) check(images(t, true, 2, 32, 48, 6, 1));
}

TEST_F(GpuConvolution, EveryChannelByItself) {
  for (ScalarType t : kDtypes)
    for (bool last : {false, true}) check(images(t, last, 2, 12, 12, 9, 3, 1, 1, 1, 12));
  check(images(kFloat, false, 2, 6, 18, 9, 3, 2, 1, 1, 6));
  check(images(kFloat, true, 2, 8, 2, 9, 3));  // few results of many channels
}

TEST_F(GpuConvolution, Groups) {
  for (ScalarType t : {kFloat, kBFloat16})
    for (bool last : {false, true}) check(images(t, last, 2, 48, 36, 8, 3, 1, 1, 1, 3));
}

// Places that no tap reaches have no gradient; steps and dilation that share a factor leave phases without taps.
TEST_F(GpuConvolution, LongSteps) {
  for (ScalarType t : {kFloat, kHalf})
    for (bool last : {false, true}) {
      check(images(t, last, 2, 8, 8, 13, 2, 3, 1));
      check(images(t, last, 1, 8, 16, 14, 3, 4, 2, 2));
      check(images(t, last, 1, 16, 8, 17, 3, 2, 0, 4));
    }
  check(images(kFloat, false, 1, 4, 8, 3, 3, 5, 1));  // fewer places than phases
}

TEST_F(GpuConvolution, Transposed) {
  for (ScalarType t : kDtypes)
    for (bool last : {false, true}) {
      Call c = images(t, last, 2, 16, 24, 6, 3, 2, 1);
      c.transposed = true;
      c.more = {1, 0};
      check(c);
    }
}

// Behind the last stride there are places that no element of the input leads to.
void check_padded_by_strides() {
  for (int64_t padding : {0, 2}) {
    Call c = images(kFloat, false, 2, 8, 8, 6, 3, 1, padding);
    c.transposed = true;
    c.dilation = {3, 3};
    c.more = {2, 0};
    check(c);
  }
}

TEST_F(GpuConvolution, TransposedAndPaddedByStrides) { check_padded_by_strides(); }

TEST_F(GpuConvolution, NamedPaddingAndSingleSamples) {
  SCOPED_TRACE(seed_text());
  for (int64_t kernel : {2, 3}) {
    const Tensor x = randn({6, 9, 8}), w = randn({10, 6, kernel, kernel}), b = randn({10});
    const Tensor got = conv2d(x.to(kGpu), w.to(kGpu), b.to(kGpu), {1, 1}, "same", {2, 2}, 1);
    expect_near(got, conv2d(x.to(kDouble), w.to(kDouble), b.to(kDouble), {1, 1}, "same", {2, 2}, 1), 2e-6, "same");
  }
}

// Nothing is there for integers: they go by products, as on the CPU.
TEST_F(GpuConvolution, OtherDtypesGoAnotherWay) {
  const Tensor x = randint(-5, 5, {2, 3, 7, 7}).to(kInt), w = randint(-5, 5, {4, 3, 3, 3}).to(kInt);
  EXPECT_TRUE(conv2d(x.to(kGpu), w.to(kGpu)).cpu().equal(conv2d(x, w)));
}

TEST_F(GpuConvolution, DrawnCalls) {
  std::mt19937_64 engine(test_seed());
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  for (int i = 0; i < 40; ++i) {
    Call c;
    c.dtype = kDtypes[between(0, 3)];
    c.channels_last = between(0, 1) == 1;
    c.transposed = between(0, 2) == 0;
    c.bias = between(0, 1) == 1;
    c.batch = between(1, 3);
    c.groups = between(0, 2) == 0 ? between(2, 4) : 1;
    const bool eights = between(0, 2) == 0;
    c.inputs = c.groups * (eights ? 8 * between(1, 4) : between(1, 20));
    c.outputs = c.groups * (eights ? 8 * between(1, 4) : between(1, 24));
    c.shift = between(0, 3) == 0 ? between(1, 9) : 0;
    const auto rank = static_cast<size_t>(between(1, 3));
    for (size_t d = 0; d < rank; ++d) {
      c.kernel.push_back(between(1, rank == 3 ? 3 : 4));
      c.stride.push_back(between(1, 3));
      c.dilation.push_back(between(1, 3));
      c.padding.push_back(between(0, 2));
      const int64_t reach = c.dilation[d] * (c.kernel[d] - 1) + 1;
      const int64_t least = c.transposed ? 1 + 2 * c.padding[d] : std::max<int64_t>(1, reach - 2 * c.padding[d]);
      c.space.push_back(least + between(0, rank == 3 ? 3 : rank == 2 ? 7 : 30));
      c.more.push_back(between(0, c.stride[d] - 1));
    }
    check(c);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// A captured graph computes the same with other numbers.
TEST_F(GpuConvolution, IsCaptured) {
  Tensor x = randn({2, 8, 9, 9}).to(kGpu), w = randn({16, 8, 3, 3}).to(kGpu);
  const Tensor first = conv2d(x, w);  // kernels are there
  cuda::synchronize();
  cuda::CUDAGraph graph;
  Tensor y;
  {
    cuda::CUDAStreamGuard guard(cuda::getStreamFromPool());
    graph.capture_begin();
    y = conv2d(x, w);
    graph.capture_end();
  }
  const Tensor other = randn({2, 8, 9, 9});
  x.copy_(other);
  cuda::synchronize();
  graph.replay();
  cuda::synchronize();
  EXPECT_FALSE(same_bits(y, first));
  EXPECT_TRUE(same_bits(y, conv2d(other.to(kGpu), w)));
}

// ---- the library ---------------------------------------------------------------------------------------------------

// FACULA_TEST_DNN=1 says that a library must be there.
class GpuDnn : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* wanted = std::getenv("FACULA_TEST_DNN");
    if (wanted && *wanted == '1') ASSERT_NE(gpu::dnn(), nullptr) << gpu::why_no_dnn();
    else if (!gpu::dnn()) GTEST_SKIP() << "no library: " << gpu::why_no_dnn();
    manual_seed(test_seed());
  }
  void TearDown() override {
    if (control()) control()("clear");
  }
};

TEST_F(GpuDnn, SaysWhatItIs) {
  EXPECT_FALSE(gpu::dnn()->name().empty());
  EXPECT_THAT(gpu::dnn()->path(), StartsWith("/"));
  EXPECT_EQ(gpu::why_no_dnn(), "");
}

TEST_F(GpuDnn, ComputesAllParts) {
  for (ScalarType t : kDtypes)
    for (bool last : {false, true}) {
      check(images(t, last, 2, 8, 12, 7, 3, 2, 1));
      check(images(t, last, 2, 4, 40, 6, 3, 1, 1));  // more channels than the software GPU's library adds a bias to
    }
  check(images(kFloat, true, 2, 8, 8, 7, 3, 1, 2, 2, 4));
}

TEST_F(GpuDnn, LeavesAloneWhatItHasNoSizesFor) { check_padded_by_strides(); }

TEST_F(GpuDnn, LinesAndVolumes) {
  for (size_t rank : {size_t{1}, size_t{3}})
    for (int64_t groups : {1, 2}) {  // of volumes the software GPU's library refuses groups
      Call c;
      c.channels_last = rank == 3;
      c.batch = 2;
      c.inputs = c.outputs = 4;
      c.groups = groups;
      for (size_t d = 0; d < rank; ++d) {
        c.space.push_back(6);
        c.kernel.push_back(3);
        c.stride.push_back(2);
        c.padding.push_back(1);
        c.dilation.push_back(1);
        c.more.push_back(0);
      }
      check(c);
    }
}

TEST_F(GpuDnn, IsUsedUnlessSwitchedOff) {
  const Tensor x = randn({1, 3, 6, 6}).to(kGpu), w = randn({5, 3, 3, 3}).to(kGpu);
  const Tensor first = conv2d(x, w);
  const int before = library_calls();
  const Tensor second = conv2d(x, w);
  EXPECT_EQ(library_calls(), control() ? before + 1 : 0);
  DnnScope off(false);
  const Tensor third = conv2d(x, w);
  EXPECT_EQ(library_calls(), control() ? before + 1 : 0);
  expect_near(first, third.cpu().to(kDouble), 2e-6, "library and kernels");
  EXPECT_TRUE(same_bits(first, second));
}

TEST_F(GpuDnn, AlgorithmsAreTimedOnce) {
  // A size that no other test has, and that an earlier run has hardly kept.
  const int64_t side = 20 + static_cast<int64_t>(test_seed() % 97);
  const Tensor x = randn({1, 1, side, side + 1}).to(kGpu), w = randn({5, 1, 3, 3}).to(kGpu);
  const gpu::DnnStats before = gpu::dnn_stats();
  static_cast<void>(conv2d(x, w));
  const gpu::DnnStats first = gpu::dnn_stats();
  EXPECT_EQ(first.tuned + first.remembered, before.tuned + before.remembered + 1);
  static_cast<void>(conv2d(x, w));
  EXPECT_EQ(gpu::dnn_stats().tuned, first.tuned);
  EXPECT_EQ(gpu::dnn_stats().remembered, first.remembered);
}

// What one process found out is there for the next.
TEST_F(GpuDnn, ChoicesAreKeptOnDisk) {
  const auto fresh = [] {
    std::string why_not;
    auto vendor =
        gpu::driver()->vendor() == gpu::Vendor::Cuda ? gpu::find_dnn_cuda(why_not) : gpu::find_dnn_hip(why_not);
    return std::make_unique<gpu::Dnn>(std::move(vendor));
  };
  const Tensor x = randn({1, 2, 5, 7}).to(kGpu), w = randn({3, 2, 2, 3}).to(kGpu), y = zeros({1, 3, 4, 5}).to(kGpu);
  gpu::DnnProblem problem;
  problem.shape = {{1, 2, 5, 7, 1},
                   {3, 2, 2, 3, 1},
                   {1, 3, 4, 5, 1},
                   {1, 1},
                   {},
                   {1, 1},
                   1,
                   2,
                   static_cast<uint8_t>(ConvolutionPart::Output),
                   static_cast<uint8_t>(kFloat),
                   0,
                   0,
                   0,
                   {}};
  problem.input = x.data_ptr();
  problem.weight = w.data_ptr();
  problem.output = y.data_ptr();
  const auto convolve = [&] {
    gpu::enter(0);
    EXPECT_TRUE(fresh()->convolve(problem, gpu::current_stream(0), "conv2d"));
  };
  convolve();
  const gpu::DnnStats before = gpu::dnn_stats();
  convolve();
  EXPECT_EQ(gpu::dnn_stats().tuned, before.tuned);
  EXPECT_EQ(gpu::dnn_stats().remembered, before.remembered + 1);
  expect_near(y, conv2d(x.cpu().to(kDouble), w.cpu().to(kDouble)), 2e-6, "output");
}

TEST_F(GpuDnn, IsCaptured) {
  Tensor x = randn({2, 8, 9, 9}).to(kGpu), w = randn({16, 8, 3, 3}).to(kGpu);
  cuda::synchronize();
  cuda::CUDAGraph graph;
  Tensor y;
  {
    cuda::CUDAStreamGuard guard(cuda::getStreamFromPool());
    graph.capture_begin();
    y = conv2d(x, w);  // a shape that nobody has timed
    graph.capture_end();
  }
  graph.replay();
  cuda::synchronize();
  expect_near(y, conv2d(x.cpu().to(kDouble), w.cpu().to(kDouble)), 2e-6, "output");
}

TEST_F(GpuDnn, FailuresNameTheLibrary) {
  if (!control()) GTEST_SKIP() << "a real GPU does not fail on request";
  const Tensor x = randn({2, 3, 8, 8}).to(kGpu), w = randn({5, 3, 3, 3}).to(kGpu);
  const Tensor right = conv2d(x, w);
  control()("library:1=unknown");
  EXPECT_THAT(error_of<DeviceError>([&] { static_cast<void>(conv2d(x, w)); }),
              AllOf(StartsWith("convolution: " + gpu::dnn()->name() + " failed with "), HasSubstr("[2, 3, 8, 8]"),
                    HasSubstr("[5, 3, 3, 3]"), HasSubstr("FACULA_DNN=none")));
  control()("clear");
  EXPECT_TRUE(same_bits(right, conv2d(x, w)));
}

}  // namespace
}  // namespace facula::testing
