// Anomaly mode in the forward pass: which op is named for the first NaN, and which are not.
#include "core/call_hooks.h"
#include "cpp/expect.h"
#include "cpp/seed.h"

#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <thread>

namespace {

using namespace facula;
using autograd::AnomalyMode;
using autograd::DetectAnomalyGuard;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class NanChecks : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(facula_test::test_seed()); }
};

template <class F>
std::string nan_error(F f) {
  SCOPED_TRACE(facula_test::seed_text());
  try {
    f();
  } catch (const NanError& e) {
    EXPECT_STREQ(e.type_name(), "NanError");
    return e.what();
  }
  ADD_FAILURE() << "no NanError";
  return {};
}

TEST_F(NanChecks, NameTheOpItsArgumentsAndTheCure) {
  const Tensor x = randn({5, 7});
  int64_t negative = 0, first = -1;
  double low = 0, high = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float value = x.data_ptr<float>()[i];
    if (value < 0 && first < 0) first = i;
    negative += value < 0;
    low = std::min(low, double(value));
    high = std::max(high, double(value));
  }
  char range[64];
  std::snprintf(range, sizeof(range), "from %g to %g", low, high);
  const DetectAnomalyGuard detect;
  EXPECT_THAT(
      nan_error([&] { (x * 1).log().exp().sum(); }),
      AllOf(StartsWith("log: "), HasSubstr("Float [5, 7]"), HasSubstr(str("NaN in ", negative, " of 35 entries")),
            HasSubstr(str("the first at [", first / 7, ", ", first % 7, "]")),
            HasSubstr(std::string("self Float [5, 7] ") + range), HasSubstr("clamp_min")));
  EXPECT_THAT(nan_error([&] { facula::var(x.select(0, 0).narrow(0, 0, 1), 0); }), HasSubstr("correction=0"));
  EXPECT_THAT(nan_error([&] { softmax(full({2, 3}, -INFINITY), -1); }), AllOf(HasSubstr("mask"), HasSubstr("dim=-1")));
  EXPECT_THAT(nan_error([&] { full({2}, INFINITY) - full({2}, INFINITY); }),
              AllOf(StartsWith("sub: "), HasSubstr("infinite"), HasSubstr("clip_grad_norm_")));
}

TEST_F(NanChecks, AreOffAtFirstAndEndWithTheirGuard) {
  const Tensor x = -rand({3}) - 1;
  EXPECT_NO_THROW(x.log());
  {
    const DetectAnomalyGuard detect;
    EXPECT_THROW(x.log(), NanError);
    EXPECT_THROW(x.log(), NanError) << "the first error must not end the mode";
    {
      const DetectAnomalyGuard backward_only(true, false);
      EXPECT_NO_THROW(x.log());
      const DetectAnomalyGuard places_only(false);
      EXPECT_NO_THROW(x.log());
    }
    EXPECT_THROW(x.log(), NanError);
    std::thread([&] { EXPECT_NO_THROW(x.log()) << "modes belong to a thread"; }).join();
  }
  EXPECT_NO_THROW(x.log());
  AnomalyMode::set_enabled(true);
  EXPECT_THROW(x.log(), NanError);
  AnomalyMode::set_enabled(false);
  EXPECT_NO_THROW(x.log());
}

TEST_F(NanChecks, BlameNoOpThatWasGivenNan) {
  const Tensor nan = full({3}, NAN), mask = tensor({1, 0, 1}).to(kBool);
  const DetectAnomalyGuard detect;
  EXPECT_NO_THROW((nan * 2 + 1).sum());
  EXPECT_NO_THROW(cat({ones({2}), nan}));
  Tensor written = nan.clone();
  EXPECT_NO_THROW(written.mul_(2));
  EXPECT_NO_THROW(linear(ones({2, 3}), ones({4, 3}), full({4}, NAN)));
}

TEST_F(NanChecks, BlameNoOpThatOnlyPlacesValues) {
  const Tensor x = randn({3}), mask = tensor({1, 0, 1}).to(kBool);
  const DetectAnomalyGuard detect;
  EXPECT_NO_THROW(x.masked_fill(mask, NAN));
  EXPECT_NO_THROW(x.clone().fill_(NAN));
  EXPECT_NO_THROW(where(mask, x, NAN));
  EXPECT_NO_THROW(full_like(x, NAN));
  EXPECT_NO_THROW(empty({1000}).zero_());
  EXPECT_THAT(nan_error([&] { x* NAN; }), AllOf(StartsWith("mul: "), HasSubstr("nan")));
}

TEST_F(NanChecks, SeeWritesInPlaceAndInto) {
  const DetectAnomalyGuard detect;
  Tensor x = -rand({4}) - 1, out = empty({4});
  EXPECT_THAT(nan_error([&] { log_out(out, x); }), StartsWith("log: "));
  EXPECT_THAT(nan_error([&] { x.clone().sqrt_(); }), AllOf(StartsWith("sqrt: "), Not(HasSubstr("from nan"))));
  EXPECT_THAT(nan_error([&] { zeros({2}).div_(0); }), AllOf(StartsWith("div: "), HasSubstr("0 / 0")));
  Tensor part = ones({2, 3});
  EXPECT_THAT(nan_error([&] { part.select(0, 1).sub_(2).log_(); }), StartsWith("log: "));
}

TEST_F(NanChecks, NameTheOpThatWasCalledAndNotWhatItIsMadeOf) {
  const DetectAnomalyGuard detect;
  const Tensor logits = randn({4, 5}), ignored = full({4}, -100, kLong);
  EXPECT_THAT(nan_error([&] { cross_entropy_loss(logits, ignored); }),
              AllOf(StartsWith("cross_entropy_loss: "), HasSubstr("ignore_index")));
  // log_softmax of -inf - max inside of an op is no concern of anybody's when the result is a number.
  EXPECT_NO_THROW(logsumexp(full({3}, -INFINITY), IntArrayRef({0})));
}

TEST_F(NanChecks, TellWhichOfSeveralResults) {
  const DetectAnomalyGuard detect;
  EXPECT_THAT(nan_error([&] { var_mean(ones({1}), IntArrayRef({0})); }),
              AllOf(StartsWith("var_mean: result 0"), HasSubstr("The variance of one element")));
}

TEST_F(NanChecks, SeeRecordedOpsAndBatches) {
  const DetectAnomalyGuard detect;
  const Tensor x = (-rand({4}) - 1).requires_grad_();
  EXPECT_THAT(nan_error([&] { (x * 2).log().sum().backward(); }), StartsWith("log: "));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_THROW(func::vmap([](const Tensor& t) { return t.log(); })(x.detach()), NanError);
  EXPECT_NO_THROW(func::vmap([](const Tensor& t) { return t.exp().log(); })(x.detach()));
}

TEST_F(NanChecks, LeaveBackwardToItsOwn) {
  const DetectAnomalyGuard detect;
  const Tensor x = zeros({3}).requires_grad_();
  const Tensor y = (x.sqrt() * 0.0).sum();
  EXPECT_THAT(nan_error([&] { y.backward(); }),
              AllOf(StartsWith("Function 'SqrtBackward0' returned nan values"), HasSubstr("which calls sqrt")));
}

TEST_F(NanChecks, NameThePlaceInTheNetwork) {
  struct Net : nn::Module {
    Tensor forward(const Tensor& x) { return encoder(x); }
    nn::TransformerEncoder encoder = register_module(
        "encoder",
        nn::TransformerEncoder(
            nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(16, 2).dim_feedforward(32).dropout(0.0)),
            4));
  } net;
  const Tensor x = randn({5, 2, 16});
  const DetectAnomalyGuard detect;
  EXPECT_NO_THROW(net.forward(x));
  {
    const NoGradGuard quiet;
    for (auto& each : net.named_parameters())
      if (each.key() == "encoder.layers.3.linear1.weight") each.value().copy_(randn_like(each.value()) * 3e38);
  }
  EXPECT_THAT(nan_error([&] { net.forward(x); }),
              AllOf(StartsWith("linear: "), HasSubstr("in module 'encoder.layers.3.linear1'"),
                    HasSubstr("weight Float [32, 16]")));
}

// Whoever watches calls is told of each once, also while results are looked at.
TEST_F(NanChecks, DoNotDisturbWatchers) {
  struct Counter : facula::detail::CallWatcher {
    void on_call(OpId op, const facula::detail::OpAttrs*) override { ++calls[std::string(op_name(op))]; }
    std::map<std::string, int> calls;
  };
  const Tensor x = randn({3, 4});
  std::map<std::string, int> plain;
  {
    Counter counter;
    x.softmax(-1).exp();
    plain = counter.calls;
  }
  const DetectAnomalyGuard detect;
  Counter counter;
  x.softmax(-1).exp();
  EXPECT_EQ(counter.calls["softmax"], plain["softmax"]);
  EXPECT_EQ(counter.calls["exp"], plain["exp"]);
}

TEST_F(NanChecks, SeeTheStepsOfOptimizers) {
  std::vector<Tensor> params = {randn({3}).requires_grad_(), randn({2, 2}).requires_grad_()};
  const auto with_gradients = [&](double second) {
    params[0].mutable_grad() = randn({3});
    params[1].mutable_grad() = full({2, 2}, second);
  };
  optim::Adam adam(params, optim::AdamOptions(0.1));
  const DetectAnomalyGuard detect;
  with_gradients(1.0);
  EXPECT_NO_THROW(adam.step());
  with_gradients(INFINITY);  // the mean and the root of the mean square are infinite
  EXPECT_THAT(nan_error([&] { adam.step(); }),
              AllOf(StartsWith("Adam: "), HasSubstr("parameter 1"), HasSubstr("Float [2, 2] from inf to inf")));
  EXPECT_NO_THROW(adam.step()) << "only the first is named";
}

// The same numbers with and without, and a run that goes wrong is stopped by the op that did it.
TEST_F(NanChecks, StopATrainingThatDiverges) {
  const Tensor x = randn({32, 4}), y = randn({32, 1});
  const auto train = [&](double rate) {
    manual_seed(facula_test::test_seed());
    nn::Sequential net(nn::Linear(4, 16), nn::Tanh(), nn::Linear(16, 1));
    optim::SGD sgd(net->parameters(), optim::SGDOptions(rate));
    double loss = 0;
    for (int step = 0; step < 60; ++step) {
      sgd.zero_grad();
      const Tensor error = net->forward(x) - y;
      const Tensor mean = (error * error * error * error).mean();
      mean.backward();
      sgd.step();
      loss = mean.item<double>();
    }
    return loss;
  };
  const double calm = train(1e-3);
  const DetectAnomalyGuard detect;
  EXPECT_EQ(train(1e-3), calm);
  EXPECT_FALSE(nan_error([&] { train(1e3); }).empty());
}

}  // namespace
