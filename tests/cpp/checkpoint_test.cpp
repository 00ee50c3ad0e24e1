// Less memory for the tape: functions that are computed again in backward, and saved tensors that are kept elsewhere.
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

namespace facula {
namespace {

using autograd::checkpoint;
using autograd::OffloadToDisk;
using autograd::SaveOnCpu;
using autograd::variable_list;
using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;
using facula_test::expect_error;
using facula_test::Watched;

Tensor block(const Tensor& x, const Tensor& w) { return (x.matmul(w).tanh() * x).exp(); }

TEST(Checkpoint, GivesTheSameGradients) {
  const Tensor x = draw_leaf({3, 3}), w = draw_leaf({3, 3});
  const variable_list want = autograd::grad({block(x, w).sum()}, {x, w});
  int calls = 0;
  const auto f = [&](const Tensor& a, const Tensor& b) {
    ++calls;
    return block(a, b);
  };
  const Tensor y = checkpoint(f, x, w);
  EXPECT_EQ(calls, 1);
  expect_close(y, block(x, w));
  y.sum().backward();
  EXPECT_EQ(calls, 2) << "computed again once";
  expect_close(x.grad(), want[0]);
  expect_close(w.grad(), want[1]);
}

TEST(Checkpoint, WeightsMayBeCaptured) {
  const Tensor x = draw({3, 3}), w = draw_leaf({3, 3});
  const Tensor want = autograd::grad({block(x, w).sum()}, {w})[0];
  checkpoint([&](const Tensor& a) { return block(a, w); }, x).sum().backward();
  expect_close(w.grad(), want);
}

TEST(Checkpoint, OfListsOfInputsAndResults) {
  const Tensor x = draw_leaf({3}), y = draw_leaf({3}), flags = x.detach() > 0;
  const auto f = [](const variable_list& in) {
    return variable_list{in[0] * in[1].exp(), where(in[2], in[0], in[1]).sin()};
  };
  const auto loss = [](const variable_list& results) { return (results[0] * results[1]).sum(); };
  const variable_list want = autograd::grad({loss(f({x, y, flags}))}, {x, y});
  const variable_list got = autograd::grad({loss(checkpoint(f, {x, y, flags}))}, {x, y});
  expect_close(got[0], want[0]);
  expect_close(got[1], want[1]);
}

TEST(Checkpoint, KeepsOnlyItsInputs) {
  const Tensor x = draw_leaf({3});
  Watched inner({3});
  const auto f = [&](const Tensor& t) {
    // The factor lives only while the function runs; the tape would save it.
    static int runs = 0;
    const Tensor factor = runs++ == 0 ? inner.take() : ones({3}, kDouble);
    return (t * factor).sin();
  };
  const Tensor y = checkpoint(f, x);
  EXPECT_TRUE(inner.freed()) << "nothing of the first run is kept";
  y.sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(Checkpoint, MemoryGoesAfterBackward) {
  Watched leaf({3}), captured({3});
  {
    const Tensor x = leaf.take().requires_grad_();
    Tensor loss = checkpoint([c = captured.take()](const Tensor& t) { return (t * c).exp().sin(); }, x * 2).sum();
    loss.backward();
    EXPECT_TRUE(captured.freed()) << "the function goes with the saved tensors";
  }
  EXPECT_TRUE(leaf.freed());
  EXPECT_TRUE(captured.freed());
}

TEST(Checkpoint, Nests) {
  const Tensor x = draw_leaf({3}), w = draw_leaf({3});
  int outer = 0, inner = 0;
  const auto plain = [&](const Tensor& t) { return (((t * w).sin() * t).exp() + t).tanh(); };
  const auto nested = [&](const Tensor& t) {
    ++outer;
    const Tensor a = checkpoint(
        [&](const Tensor& s) {
          ++inner;
          return checkpoint([&](const Tensor& r) { return (r * w).sin() * r; }, s).exp();
        },
        t);
    return (a + t).tanh();
  };
  const variable_list want = autograd::grad({plain(x).sum()}, {x, w});
  const variable_list got = autograd::grad({checkpoint(nested, x).sum()}, {x, w});
  expect_close(got[0], want[0]);
  expect_close(got[1], want[1]);
  EXPECT_EQ(outer, 2);
  EXPECT_GE(inner, 2);
}

TEST(Checkpoint, Chains) {
  const Tensor x = draw_leaf({4});
  Tensor y = x, z = x;
  for (int i = 0; i < 50; ++i) {
    y = checkpoint([](const Tensor& t) { return (t.sin() * 1.1 + t).tanh(); }, y);
    z = (z.sin() * 1.1 + z).tanh();
  }
  expect_close(autograd::grad({y.sum()}, {x})[0], autograd::grad({z.sum()}, {x})[0]);
}

TEST(Checkpoint, ReplaysRandomNumbers) {
  const Tensor x = draw_leaf({1000});
  manual_seed(facula_test::test_seed());
  const Tensor y = checkpoint([](const Tensor& t) { return dropout(t, 0.5, true).mul(t); }, x);
  const Tensor before = rand({4});
  y.sum().backward();
  // y = m t^2 with m = 0 or 2, so the gradient is 2 y / t.
  expect_close(x.grad(), 2 * y.detach() / x.detach());
  // The stream outside goes on as if nothing had been computed again.
  const Tensor after = rand({4});
  manual_seed(facula_test::test_seed());
  dropout(x.detach(), 0.5, true);
  EXPECT_TRUE(rand({4}).equal(before));
  EXPECT_TRUE(rand({4}).equal(after));
}

TEST(Checkpoint, MayLeaveRandomNumbersAlone) {
  const Tensor x = draw_leaf({64});
  variable_list drawn;
  const auto f = [&](const variable_list& in) {
    drawn.push_back(rand({64}, kDouble));
    return variable_list{in[0] * drawn.back()};
  };
  checkpoint(f, {x}, false)[0].sum().backward();
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_FALSE(drawn[0].equal(drawn[1]));
  drawn.clear();
  checkpoint(f, {x}, true)[0].sum().backward();
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_TRUE(drawn[0].equal(drawn[1]));
}

TEST(Checkpoint, RunsAgainWithARetainedGraph) {
  const Tensor x = draw_leaf({3});
  int calls = 0;
  const Tensor y = checkpoint(
                       [&](const Tensor& t) {
                         ++calls;
                         return t.exp().sin();
                       },
                       x)
                       .sum();
  y.backward({}, true);
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(calls, 4);
  const Tensor e = x.detach().exp();
  expect_close(x.grad(), 3 * e.cos() * e);
  expect_error<Error>([&] { y.backward(); }, "second time");
}

TEST(Checkpoint, DifferentiatesTwice) {
  const Tensor x = draw_leaf({3}), w = draw_leaf({3});
  const auto f = [&](const Tensor& a, const Tensor& b) { return (a * b).exp() * a.sin(); };
  const auto second = [&](const Tensor& y) {
    const variable_list d = autograd::grad({y.sum()}, {x, w}, {}, std::nullopt, true);
    return autograd::grad({(d[0] * d[1]).sum()}, {x, w});
  };
  const variable_list want = second(f(x, w)), got = second(checkpoint(f, x, w));
  expect_close(got[0], want[0]);
  expect_close(got[1], want[1]);
}

TEST(Checkpoint, InsideFuncGrad) {
  const Tensor x = draw({3});
  const auto f = [](const Tensor& t) { return t.exp().sin(); };
  const Tensor want = func::grad([&](const Tensor& t) { return f(t).sum(); })(x);
  expect_close(func::grad([&](const Tensor& t) { return checkpoint(f, t).sum(); })(x), want);
  const auto again = [&](const Tensor& t) { return checkpoint(f, t); };
  const auto slope = [&](const Tensor& t) { return t.exp().cos() * t.exp(); };
  expect_close(func::jvp(again, {x}, {ones({3}, kDouble)}).second, slope(x));
  expect_close(func::vmap(func::grad(again))(x), slope(x));
  expect_close(func::vmap(func::grad(func::grad(again)))(x), x.exp().cos() * x.exp() - x.exp().sin() * x.exp().pow(2));
}

TEST(Checkpoint, WithoutRecordingItIsTheFunction) {
  const Tensor x = draw_leaf({3});
  int calls = 0;
  const auto f = [&](const Tensor& t) {
    ++calls;
    return t.exp();
  };
  {
    const NoGradGuard quiet;
    EXPECT_FALSE(checkpoint(f, x).requires_grad());
  }
  EXPECT_FALSE(checkpoint(f, x.detach()).requires_grad());
  EXPECT_EQ(calls, 2);
}

TEST(Checkpoint, FunctionsThatChangeAreNoticed) {
  const Tensor x = draw_leaf({3});
  int calls = 0;
  const Tensor y = checkpoint([&](const Tensor& t) { return calls++ == 0 ? t.exp() : t.exp().sin().tanh(); }, x).sum();
  expect_error<Error>([&] { y.backward({}, true); }, "it must do the same every time");
  expect_error<Error>([] { checkpoint(std::function<variable_list(const variable_list&)>(), {draw({2})}); },
                      "the function is empty");
  // Results of another shape, with as many saved tensors.
  calls = 0;
  const Tensor z = checkpoint([&](const Tensor& t) { return (calls++ == 0 ? t : t.narrow(0, 0, 2)).exp(); }, x).sum();
  EXPECT_THROW(z.backward(), Error);
  x.mutable_grad() = Tensor();
  x.exp().sum().backward();
  expect_close(x.grad(), x.detach().exp());
}

TEST(Checkpoint, FunctionsThatThrow) {
  const Tensor x = draw_leaf({3});
  EXPECT_THROW(checkpoint(
                   [](const Tensor& t) -> Tensor {
                     const Tensor y = t.exp();
                     throw std::runtime_error("first");
                     return y;
                   },
                   x),
               std::runtime_error);
  bool fail = false;
  const Tensor y = checkpoint(
                       [&](const Tensor& t) {
                         if (fail) throw std::runtime_error("again");
                         return t.exp().sin();
                       },
                       x)
                       .sum();
  fail = true;
  EXPECT_THROW(y.backward({}, true), std::runtime_error);
  fail = false;
  y.backward();
  expect_close(x.grad(), x.detach().exp().cos() * x.detach().exp());
}

TEST(Checkpoint, InputsThatWereWrittenToAreNoticed) {
  const Tensor x = draw_leaf({3});
  Tensor middle = x * 2;
  const Tensor y = checkpoint([](const Tensor& t) { return t.sin(); }, middle).sum();
  middle.add_(1);
  expect_error<Error>([&] { y.backward(); }, "modified by an inplace operation");
}

TEST(Checkpoint, RunsInThreadsAtOnce) {
  const Tensor w = draw_leaf({8});
  const Tensor want = autograd::grad({(w.sin() * w).exp().sum()}, {w})[0];
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i)
        checkpoint([](const variable_list& in) { return variable_list{(in[0].sin() * in[0]).exp()}; }, {w}, false)[0]
            .sum()
            .backward();
    });
  for (std::thread& thread : threads) thread.join();
  expect_close(w.grad(), 40 * want, 1e-10);
}

// ---- saved tensors elsewhere

template <class Hooks, class... Args>
void check_offload(Args&&... args) {
  const Tensor x = draw_leaf({8, 8}), w = draw_leaf({8, 8});
  const variable_list want = autograd::grad({block(x, w).sum()}, {x, w});
  Tensor y;
  {
    const Hooks hooks(std::forward<Args>(args)...);
    y = block(x, w).sum();
  }
  const variable_list first = autograd::grad({y}, {x, w}, {}, true, true);
  expect_close(first[0], want[0], 0);
  expect_close(first[1], want[1], 0);
  const Tensor twice = autograd::grad({(first[0] * first[1]).sum()}, {x})[0];
  const variable_list plain = autograd::grad({block(x, w).sum()}, {x, w}, {}, std::nullopt, true);
  expect_close(twice, autograd::grad({(plain[0] * plain[1]).sum()}, {x})[0]);
}

TEST(Offload, ToTheHost) { check_offload<SaveOnCpu>(); }
TEST(Offload, ToDisk) { check_offload<OffloadToDisk>("", size_t{1}); }
TEST(Offload, ToDiskOnlyWhatIsLarge) { check_offload<OffloadToDisk>("", size_t{1} << 30); }

TEST(Offload, FreesMemoryAndLeavesNoFiles) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / ("facula_offload_" + std::to_string(::getpid()));
  fs::create_directory(folder);
  const Tensor x = draw_leaf({1000});
  Watched factor({1000});
  const Tensor c = facula_test::draw({1000});
  Tensor y;
  {
    const OffloadToDisk hooks(folder.string(), 1);
    y = (x * factor.take()).sum();
    EXPECT_TRUE(factor.freed()) << "it lies on disk now";
    EXPECT_TRUE(fs::is_empty(folder)) << "files have no names";
  }
  y.backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove(folder);
}

TEST(Offload, SaysWhenItCannotWrite) {
  const Tensor x = draw_leaf({8});
  {
    const OffloadToDisk hooks("/nowhere/at/all", 1);
    expect_error<Error>([&] { x.exp(); }, "no file can be made in /nowhere/at/all");
  }
  x.exp().sum().backward();
  expect_close(x.grad(), x.detach().exp());
}

}  // namespace
}  // namespace facula
