// Programs: what the builder accepts, canonical form and hash, and the CPU executor on random programs, shapes, strides
// and dtypes against the same operations one by one.
#include "core/call_hooks.h"
#include "cpu/executor.h"
#include "ops/pointwise.h"
#include "program/program.h"
#include "seed.h"

#include <facula/facula.h>
#include <gtest/gtest.h>

namespace {

using namespace facula;
using facula_test::seed_text;
using facula_test::test_seed;

Program gated_chain(ScalarType t) {
  Program p;
  Value x = p.load(t), y = p.load(t), half = p.param(x.type);
  Value gate = p.apply(ScalarOp::sigmoid, p.apply(ScalarOp::mul, x, y));
  p.store(p.apply(ScalarOp::sub, p.apply(ScalarOp::mul, gate, p.apply(ScalarOp::tanh, x)), half), t);
  return p;
}

TEST(Program, EqualWorkIsDoneOnce) {
  Program p;
  Value x = p.load(kFloat);
  Value a = p.apply(ScalarOp::exp, x), b = p.apply(ScalarOp::exp, x);
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(p.instructions().size(), 1u);
}

TEST(Program, EqualProgramsHashAlikeAndOthersDiffer) {
  EXPECT_EQ(gated_chain(kFloat), gated_chain(kFloat));
  EXPECT_EQ(gated_chain(kFloat).hash(), gated_chain(kFloat).hash());
  EXPECT_NE(gated_chain(kFloat).hash(), gated_chain(kDouble).hash());
  EXPECT_FALSE(gated_chain(kFloat) == gated_chain(kBFloat16));
}

TEST(Program, PrintsOneLineAStep) {
  EXPECT_EQ(gated_chain(kBFloat16).to_string(),
            "v0 = load.bfloat16 0\nv1 = load.bfloat16 1\nv2 = param.F32 0\nv3 = mul.F32 v0 v1\nv4 = sigmoid.F32 v3\n"
            "v5 = tanh.F32 v0\nv6 = mul.F32 v4 v5\nv7 = sub.F32 v6 v2\nstore.bfloat16 0 v7\n");
}

TEST(Program, RefusesWrongTypes) {
  Program p;
  Value x = p.load(kFloat), n = p.load(kLong);
  EXPECT_THROW(p.apply(ScalarOp::add, x, n), InternalError);
  EXPECT_THROW(p.apply(ScalarOp::bitwise_not, x), InternalError);
  EXPECT_THROW(p.apply(ScalarOp::where, x, x, x), InternalError);
}

// A tensor of random layout: contiguous, transposed, sliced with gaps, or broadcast along some dims.
Tensor random_layout(IntArrayRef sizes, ScalarType t, std::mt19937_64& rng) {
  std::vector<int64_t> shape(sizes.begin(), sizes.end());
  std::vector<int64_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::shuffle(order.begin(), order.end(), rng);
  std::vector<int64_t> stored, steps;
  for (int64_t d : order) {
    int64_t n = shape[static_cast<size_t>(d)];
    if (n > 1 && rng() % 6 == 0) n = 1;  // broadcast later
    int64_t step = rng() % 4 == 0 ? 2 : 1;
    stored.push_back(n * step);
    steps.push_back(step);
  }
  Tensor x = randn(stored).mul(2).to(t);
  for (size_t i = 0; i < steps.size(); ++i) x = x.slice(static_cast<int64_t>(i), 0, std::nullopt, steps[i]);
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return x.permute(back).expand(shape);
}

TEST(Executor, FusedEqualsOneByOneOnRandomShapesAndLayouts) {
  SCOPED_TRACE(seed_text());
  std::mt19937_64 rng(test_seed());
  manual_seed(test_seed());
  for (int round = 0; round < 150; ++round) {
    std::vector<int64_t> sizes(rng() % 5);
    for (int64_t& n : sizes) n = static_cast<int64_t>(rng() % 4 == 0 ? rng() % 70 : rng() % 9);
    ScalarType t = rng() % 2 ? kFloat : kDouble;
    Tensor x = random_layout(sizes, t, rng), y = random_layout(sizes, t, rng);
    Tensor fused = run_program(gated_chain(t), {x, y}, {Scalar(0.5)}, Out::fresh(), "test");
    Tensor plain = sigmoid(x * y) * tanh(x) - 0.5;
    ASSERT_TRUE(fused.sizes() == plain.sizes());
    ASSERT_TRUE(fused.equal(plain)) << "sizes " << to_text(IntArrayRef(sizes)) << " strides " << to_text(x.strides())
                                    << " " << to_text(y.strides());
  }
}

TEST(Executor, MixedDtypesRoundOnceAtTheStore) {
  manual_seed(test_seed());
  SCOPED_TRACE(seed_text());
  Tensor x = randn({5000}).to(kBFloat16), y = randn({5000}).to(kBFloat16);
  Tensor fused = run_program(gated_chain(kBFloat16), {x, y}, {Scalar(0.5)}, Out::fresh(), "test");
  Tensor wide = sigmoid(x.to(kFloat) * y.to(kFloat)) * tanh(x.to(kFloat)) - 0.5;
  EXPECT_TRUE(fused.equal(wide.to(kBFloat16)));
}

TEST(Executor, SeveralStoresAndAliasing) {
  manual_seed(test_seed());
  SCOPED_TRACE(seed_text());
  Program p;
  Value x = p.load(kFloat), y = p.load(kFloat);
  Value sum = p.apply(ScalarOp::add, x, y);
  p.store(sum, kFloat);                             // over x, which a later step still reads
  p.store(p.apply(ScalarOp::mul, sum, x), kFloat);  // over y
  for (int64_t n : {3, 1000, 10000, 300000}) {
    Tensor a = randn({n}), b = randn({n});
    Tensor expected_sum = a + b, expected_product = expected_sum * a;
    Tensor loads[] = {a, b}, stores[] = {a, b};
    run_program_into(p, loads, {}, stores, "test");
    EXPECT_TRUE(a.equal(expected_sum)) << n;
    EXPECT_TRUE(b.equal(expected_product)) << n;
  }
}

TEST(Executor, SameBitsForAnyNumberOfThreads) {
  manual_seed(test_seed());
  SCOPED_TRACE(seed_text());
  int before = get_num_threads();
  Tensor x = randn({700, 901}), y = randn({901, 700}).t();
  set_num_threads(1);
  Tensor one = run_program(gated_chain(kFloat), {x, y}, {Scalar(0.5)}, Out::fresh(), "test");
  Tensor sum_one = x.sum(), var_one = y.var(1);
  set_num_threads(3);
  Tensor three = run_program(gated_chain(kFloat), {x, y}, {Scalar(0.5)}, Out::fresh(), "test");
  EXPECT_TRUE(one.equal(three));
  EXPECT_TRUE(sum_one.equal(x.sum()));
  EXPECT_TRUE(var_one.equal(y.var(1)));
  set_num_threads(before);
}

// Inputs that nothing uses count as inputs: neither their number nor their shapes may change what is computed.
TEST(Fused, InputsBeyondTheOperandsChangeNothing) {
  for (size_t unused : {1, 2, 3, 5}) {
    Fused f;
    std::vector<Fused::Value> in;
    for (size_t k = 0; k < unused + 2; ++k) in.push_back(f.input(kFloat));
    f.output(f.apply("add", {in.front(), in.back()}));
    const Tensor a = randn({30, 100}), row = randn({1, 100}), apart = randn({30, 120}).narrow(1, 3, 100);
    auto run = [&](const Tensor& other, const Tensor& last) {
      if (unused == 1) return f({a, other, last});
      if (unused == 2) return f({a, other, other, last});
      if (unused == 3) return f({a, other, other, other, last});
      return f({a, other, other, other, other, other, last});
    };
    for (const Tensor& other : {a, row, apart})
      for (const Tensor& last : {a, row, apart})
        EXPECT_TRUE(equal(run(other, last), a + last))
            << unused << " unused, strides " << other.strides() << ", " << last.strides();
  }
}

TEST(Fused, RunsByNameWithPromotion) {
  manual_seed(test_seed());
  Tensor x = randn({4, 5}), mask = x.gt(0), n = arange(5);
  Fused f;
  auto a = f.input(kFloat), m = f.input(kBool), k = f.input(kLong);
  auto two = f.constant(2.0, kFloat);
  f.output(f.apply("where", {m, f.apply("mul", {a, two}), f.apply("add", {a, k})}));
  EXPECT_TRUE(f({x, mask, n}).equal(where(mask, x * 2.0, x + n)));
  EXPECT_THROW(f({x, mask}), ValueError);
  EXPECT_THROW(f({x, x, n}), DTypeError);
}

// Whoever watches calls is told op and attributes.
struct Recorder : detail::CallWatcher {
  void on_call(OpId op, const detail::OpAttrs* attrs) override {
    ops.push_back(std::string(op_name(op)));
    hashes.push_back(attrs ? attrs->hash() : 0);
    texts.push_back(attrs ? attrs->to_string() : "");
  }
  std::vector<std::string> ops, texts;
  std::vector<size_t> hashes;
};

TEST(CallHooks, ReportOpsAndAttributes) {
  Tensor x = ones({2, 3});
  Recorder recorder;
  softmax(x, 1);
  softmax(x, 0);
  softmax(x, 1);
  ASSERT_GE(recorder.ops.size(), 3u);
  std::vector<size_t> softmaxes;
  for (size_t i = 0; i < recorder.ops.size(); ++i)
    if (recorder.ops[i] == "softmax") softmaxes.push_back(recorder.hashes[i]);
  ASSERT_EQ(softmaxes.size(), 3u);
  EXPECT_EQ(softmaxes[0], softmaxes[2]);
  EXPECT_NE(softmaxes[0], softmaxes[1]);
}

}  // namespace
