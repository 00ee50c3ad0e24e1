// Attention on a GPU, forward and backward, against the same formulas by other ops in double precision on the CPU: on
// shapes that choose between kernels, in all dtypes, with masks, shared heads and dropout, and on calls that are drawn
// anew in every run.
#include "cpp/seed.h"
#include "cpu/attention.h"
#include "on_device.h"

#include <facula/cuda.h>
#include <facula/facula.h>

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace facula::testing {
namespace {

using facula_test::seed_text;
using facula_test::test_seed;

const Device kGpu("cuda:0");

enum class MaskKind { None, Bool, Added, AddedByKey };
// As tensors lie: by heads, by length (as a projection leaves them), or one element behind where memory begins.
enum class Order { ByHeads, ByLength, Shifted };

struct Call {
  ScalarType dtype = kFloat;
  int64_t batch = 1, heads = 1, shared = 1, length = 1, keys = 1, width = 8, wide = 8;
  bool causal = false;
  MaskKind mask = MaskKind::None;
  double dropout = 0;
  Order order = Order::ByHeads;
  double scale = 0;  // 0: the usual

  std::string text() const {
    std::ostringstream out;
    out << toString(dtype) << " B" << batch << " H" << heads << "/" << shared << " L" << length << " S" << keys << " E"
        << width << " V" << wide << (causal ? " causal" : "") << " mask " << static_cast<int>(mask) << " dropout "
        << dropout << " order " << static_cast<int>(order) << " scale " << factor();
    return out.str();
  }
  double factor() const { return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(width)); }
};

struct Inputs {
  Tensor query, key, value, grad, mask;  // on the CPU
};

Tensor laid_out(const Tensor& t, Order order) {
  if (order == Order::ByLength) return t.transpose(1, 2).contiguous().transpose(1, 2);
  if (order == Order::ByHeads) return t.contiguous();
  Tensor room = zeros({t.numel() + 1}, t.options());
  Tensor there = room.slice(0, 1).view(t.sizes());
  there.copy_(t);
  return there;
}

Inputs drawn(const Call& c) {
  const auto draw = [&](int64_t heads, int64_t length, int64_t width) {
    return laid_out(randn({c.batch, heads, length, width}).to(c.dtype), c.order);
  };
  Inputs in{draw(c.heads, c.length, c.width), draw(c.shared, c.keys, c.width), draw(c.shared, c.keys, c.wide),
            draw(c.heads, c.length, c.wide), Tensor()};
  switch (c.mask) {
    case MaskKind::None: break;
    case MaskKind::Bool:
      in.mask = rand({c.batch, 1, c.length, c.keys}) < 0.7;
      in.mask.select(2, c.length / 2).fill_(false);  // a query that sees nothing
      break;
    case MaskKind::Added: in.mask = randn({c.heads, c.length, c.keys}).to(c.dtype); break;
    case MaskKind::AddedByKey:
      in.mask = zeros({c.batch, 1, 1, c.keys}).to(c.dtype);
      in.mask.slice(3, c.keys - c.keys / 3).fill_(-INFINITY);
      break;
  }
  return in;
}

struct Results {
  Tensor output, sums, to_query, to_key, to_value;
};

// The truth: scores are written out and differentiated op by op.
Results by_ops(const Call& c, const Inputs& in, const Tensor& rng_state) {
  const auto leaf = [](const Tensor& t) { return t.to(kDouble).detach().clone().requires_grad_(true); };
  const Tensor q = leaf(in.query), k = leaf(in.key), v = leaf(in.value);
  const Tensor keys = k.repeat_interleave(c.heads / c.shared, 1), values = v.repeat_interleave(c.heads / c.shared, 1);
  Tensor scores = (q * c.factor()).matmul(keys.transpose(-2, -1));
  if (in.mask.defined())
    scores = in.mask.scalar_type() == kBool ? scores.masked_fill(in.mask.logical_not(), -INFINITY)
                                            : scores + in.mask.to(kDouble);
  if (c.causal) scores = scores.masked_fill(ones({c.length, c.keys}, TensorOptions(kBool)).triu(1), -INFINITY);
  const Tensor top = scores.detach().amax(-1, true);
  const Tensor powers = (scores - top.masked_fill(top == -INFINITY, 0)).exp();
  const Tensor total = powers.sum(-1, true), blind = total == 0;
  Tensor shares = powers / total.masked_fill(blind, 1);
  if (c.dropout > 0) {
    AttentionArgs a;
    a.dropout = c.dropout;
    a.seed = static_cast<uint64_t>(rng_state[0].item<int64_t>());
    a.offset = static_cast<uint64_t>(rng_state[1].item<int64_t>());
    Tensor keep = empty({c.batch, c.heads, c.length, c.keys}, TensorOptions(kByte));
    auto* bytes = keep.data_ptr<uint8_t>();
    for (int64_t row = 0; row < c.batch * c.heads * c.length; ++row)
      attention_keep(a, row, c.keys, 0, c.keys, bytes + row * c.keys);
    shares = shares * keep.to(kDouble) / (1 - c.dropout);
  }
  const Tensor output = shares.matmul(values);
  output.backward(in.grad.to(kDouble));
  const Tensor sums = (top.masked_fill(top == -INFINITY, 0) + total.detach().log()).squeeze(-1);
  return {output.detach(), sums, q.grad(), k.grad(), v.grad()};
}

double tolerance(ScalarType t) {
  switch (t) {
    case kHalf: return 2e-3;
    case kBFloat16: return 1.2e-2;
    case kDouble: return 1e-12;
    default: return 3e-6;
  }
}

double norm_of(const Tensor& t) { return t.square().sum().sqrt().item<double>(); }

// `least` is the size of the terms where they may cancel.
void expect_near(const Tensor& got, const Tensor& want, double most, const std::string& what, double least = 1e-3) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const double off = norm_of(got.cpu().to(kDouble) - want), size = std::max(norm_of(want), least);
  EXPECT_TRUE(off <= most * size) << what << ": the relative error is " << off / size;
}

void check(const Call& c) {
  SCOPED_TRACE(seed_text());
  SCOPED_TRACE(c.text());
  const Inputs in = drawn(c);
  const Tensor q = to_gpu(in.query), k = to_gpu(in.key), v = to_gpu(in.value), g = to_gpu(in.grad);
  const std::optional<Tensor> mask = in.mask.defined() ? std::optional(to_gpu(in.mask)) : std::nullopt;
  const auto [output, sums, state] = _fused_attention(q, k, v, mask, c.dropout, c.causal, c.factor());
  const auto [to_query, to_key, to_value] =
      _fused_attention_backward(g, q, k, v, mask, output, sums, state, c.dropout, c.causal, c.factor());
  const Results want = by_ops(c, in, state);
  const double most = tolerance(c.dtype);
  expect_near(output, want.output, most, "output");
  const double slope = std::abs(c.factor()) * std::sqrt(static_cast<double>(c.wide));
  expect_near(to_query, want.to_query, most, "gradient of query", slope * norm_of(want.output));
  expect_near(to_key, want.to_key, most, "gradient of key", slope * norm_of(want.to_value));
  expect_near(to_value, want.to_value, most, "gradient of value");
  const Tensor got_sums = sums.cpu().to(kDouble), blind = want.sums == -INFINITY;
  EXPECT_TRUE((got_sums == -INFINITY).equal(blind)) << "sums of rows that see nothing";
  expect_near(got_sums.masked_fill(blind, 0), want.sums.masked_fill(blind, 0), c.dtype == kDouble ? 1e-12 : 1e-5,
              "logsumexp");
}

class GpuAttention : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(test_seed()); }
};

// ---- every kernel ---------------------------------------------------------------------------------------------------

TEST_F(GpuAttention, PlainTiles) {
  check({.dtype = kFloat, .batch = 2, .heads = 2, .shared = 1, .length = 70, .keys = 90, .width = 20, .wide = 12});
  check({.dtype = kFloat, .heads = 2, .shared = 2, .length = 130, .keys = 66, .width = 64, .wide = 64, .causal = true});
  check({.dtype = kDouble, .length = 33, .keys = 70, .width = 7, .wide = 130, .mask = MaskKind::Added, .dropout = 0.2});
  check({.dtype = kFloat,
         .heads = 2,
         .shared = 2,
         .length = 40,
         .keys = 41,
         .width = 300,
         .wide = 5,
         .mask = MaskKind::Bool,
         .dropout = 0.3});
  check({.dtype = kHalf, .heads = 2, .length = 65, .keys = 20, .width = 9, .wide = 33, .order = Order::Shifted});
}

TEST_F(GpuAttention, NarrowHeadsOnCores) {
  check({.dtype = kBFloat16, .heads = 2, .length = 20, .keys = 40, .width = 32, .wide = 24});
  check({.dtype = kHalf,
         .batch = 2,
         .heads = 4,
         .shared = 2,
         .length = 70,
         .keys = 150,
         .width = 64,
         .wide = 64,
         .order = Order::ByLength});
  check({.dtype = kBFloat16, .heads = 2, .length = 150, .keys = 170, .width = 64, .wide = 40, .causal = true});
}

TEST_F(GpuAttention, HeadsOf128OnCores) {
  check({.dtype = kBFloat16,
         .heads = 2,
         .length = 140,
         .keys = 100,
         .width = 128,
         .wide = 128,
         .order = Order::ByLength});
  check({.dtype = kHalf, .length = 129, .keys = 135, .width = 96, .wide = 128, .causal = true});
}

TEST_F(GpuAttention, WideHeadsOnCores) {
  check({.dtype = kBFloat16, .length = 70, .keys = 130, .width = 256, .wide = 256, .causal = true});
  check({.dtype = kHalf, .length = 30, .keys = 70, .width = 160, .wide = 192});
}

TEST_F(GpuAttention, MasksAndDropoutOnCores) {
  check({.dtype = kBFloat16,
         .heads = 4,
         .shared = 2,
         .length = 40,
         .keys = 70,
         .width = 32,
         .wide = 24,
         .mask = MaskKind::Bool,
         .dropout = 0.3});
  check({.dtype = kHalf,
         .heads = 2,
         .shared = 1,
         .length = 130,
         .keys = 140,
         .width = 64,
         .wide = 64,
         .causal = true,
         .mask = MaskKind::Added,
         .dropout = 0.2});
  check({.dtype = kBFloat16,
         .batch = 2,
         .length = 66,
         .keys = 90,
         .width = 128,
         .wide = 128,
         .mask = MaskKind::AddedByKey});
  check({.dtype = kHalf, .length = 40, .keys = 40, .width = 64, .wide = 64, .scale = -0.2});
}

// Keys that no query sees get gradients of zero; later queries see all keys.
TEST_F(GpuAttention, CausalWhereLengthsDiffer) {
  for (const ScalarType t : {kFloat, kBFloat16}) {
    check({.dtype = t, .length = 20, .keys = 200, .width = 16, .wide = 16, .causal = true});
    check({.dtype = t, .length = 200, .keys = 20, .width = 16, .wide = 16, .causal = true});
  }
}

// ---- drawn calls ----------------------------------------------------------------------------------------------------

TEST_F(GpuAttention, DrawnCalls) {
  std::mt19937_64 engine(test_seed());
  const auto below = [&](int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(n)); };
  const auto one_of = [&](std::initializer_list<int64_t> all) {
    return all.begin()[below(static_cast<int64_t>(all.size()))];
  };
  for (int round = 0; round < 12; ++round) {
    Call c;
    c.dtype = std::initializer_list<ScalarType>{kFloat, kDouble, kHalf, kBFloat16}.begin()[round % 4];
    c.batch = 1 + below(2);
    c.shared = 1 + below(2);
    c.heads = c.shared * (1 + below(2));
    c.length = one_of({1, 5, 16, 64, 65, 100});
    c.keys = one_of({1, 3, 32, 64, 67, 130});
    // Few widths on cores, since each of them is a kernel of its own.
    c.width = below(2) == 0 ? one_of({32, 64}) : 1 + below(40);
    c.wide = below(2) == 0 ? c.width : 1 + below(40);
    c.causal = below(3) == 0;
    c.mask = static_cast<MaskKind>(below(4));
    c.dropout = below(3) == 0 ? 0.25 : 0;
    c.order = static_cast<Order>(below(3));
    check(c);
  }
}

// ---- the public op --------------------------------------------------------------------------------------------------

TEST_F(GpuAttention, GradientsOfThePublicOp) {
  for (const ScalarType t : {kDouble, kBFloat16}) {
    const Tensor q = randn({2, 4, 18, 16}).to(t), k = randn({2, 2, 25, 16}).to(t), v = randn({2, 2, 25, 8}).to(t);
    const Tensor g = randn({2, 4, 18, 8}).to(t);
    const auto gradients = [&](const Device& device, ScalarType work) {
      std::vector<Tensor> leaves;
      for (const Tensor& x : {q, k, v}) leaves.push_back(x.to(device).to(work).detach().requires_grad_(true));
      const Tensor out =
          scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], std::nullopt, 0.0, true, std::nullopt, true);
      out.backward(g.to(device).to(work));
      return std::vector<Tensor>{out.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
    };
    const auto got = gradients(kGpu, t), want = gradients(Device("cpu"), kDouble);
    for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], want[i], tolerance(t), "result " + std::to_string(i));
  }
}

// The same seed leaves out the same scores on every device.
TEST_F(GpuAttention, DropoutIsThatOfTheCpu) {
  const Tensor q = randn({1, 2, 30, 8}, TensorOptions(kDouble)), k = randn({1, 2, 37, 8}, TensorOptions(kDouble));
  const auto run = [&](const Device& device) {
    manual_seed(test_seed() + 1);
    return scaled_dot_product_attention(q.to(device), k.to(device), k.to(device), std::nullopt, 0.4);
  };
  const Tensor on_cpu = run(Device("cpu"));
  expect_near(run(kGpu), on_cpu, 1e-12, "output");
  const Tensor plain = scaled_dot_product_attention(q, k, k);
  EXPECT_GT((on_cpu - plain).abs().max().item<double>(), 1e-3);
}

TEST_F(GpuAttention, TwoRunsGiveTheSameBits) {
  const auto draw = [](int64_t heads, int64_t length) { return randn({1, heads, length, 64}).to(kBFloat16).to(kGpu); };
  const Tensor q = draw(4, 70), k = draw(2, 70), v = draw(2, 70), g = draw(4, 70);
  const auto run = [&] {
    const auto [output, sums, state] = _fused_attention(q, k, v, std::nullopt, 0.0, true, 0.125);
    const auto [a, b, c] = _fused_attention_backward(g, q, k, v, std::nullopt, output, sums, state, 0.0, true, 0.125);
    return std::vector<Tensor>{output.cpu(), a.cpu(), b.cpu(), c.cpu()};
  };
  const auto first = run(), second = run();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].equal(second[i])) << "result " << i;
}

TEST_F(GpuAttention, ScoresAreNeverInMemory) {
  const int64_t length = 64, keys = 4096;
  const Tensor q = randn({1, 1, length, 8}, TensorOptions().device(kGpu));
  const Tensor k = randn({1, 1, keys, 8}, TensorOptions().device(kGpu));
  Tensor out = scaled_dot_product_attention(q, k, k);
  cuda::synchronize();
  const int64_t before = cuda::memory_allocated();
  cuda::reset_peak_memory_stats();
  out = scaled_dot_product_attention(q, k, k);
  EXPECT_LT(cuda::max_memory_allocated() - before, length * keys * 4 / 8);
  EXPECT_TRUE(out.isfinite().all().item<bool>());
}

// A graph draws anew in every launch.
TEST_F(GpuAttention, DropoutInAGraph) {
  const Tensor x = randn({1, 1, 16, 16}, TensorOptions().device(kGpu));
  Tensor before, out;
  cuda::CUDAGraph graph;
  {
    cuda::GraphCapture capture(graph);
    before = facula::dropout(x, 0.5, true);
    out = scaled_dot_product_attention(x, x, x, std::nullopt, 0.5);
  }
  graph.replay();
  const Tensor first = out.cpu();
  graph.replay();
  EXPECT_FALSE(first.equal(out.cpu()));
}

}  // namespace
}  // namespace facula::testing
