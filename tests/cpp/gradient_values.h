// Inputs and truths of gradient tests: doubles drawn anew for every test, finite differences, and tensors whose end can be
// seen.
#pragma once

#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/seed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace facula_test {

// The stream of the running test: the same with and without a filter.
inline std::mt19937_64& test_stream() {
  static std::mt19937_64 stream;
  static std::string owner;
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = info ? std::string(info->test_suite_name()) + "." + info->name() : "none";
  if (owner != name) {
    owner = name;
    stream.seed(test_seed() ^ std::hash<std::string>()(name));
  }
  return stream;
}

// Doubles between `low` and `high`.
inline facula::Tensor draw(const std::vector<int64_t>& shape, double low = -2, double high = 2) {
  facula::Tensor t = facula::empty(shape, facula::kDouble);
  std::uniform_real_distribution<double> numbers(low, high);
  std::generate_n(t.data_ptr<double>(), t.numel(), [&] { return numbers(test_stream()); });
  return t;
}
inline facula::Tensor draw_leaf(const std::vector<int64_t>& shape, double low = -2, double high = 2) {
  return draw(shape, low, high).requires_grad_();
}

inline void expect_close(const facula::Tensor& got, const facula::Tensor& want, double tolerance = 1e-12) {
  SCOPED_TRACE(seed_text());
  ASSERT_TRUE(got.defined());
  ASSERT_EQ(got.sizes().vec(), want.sizes().vec());
  const std::vector<double> a = values(got.detach()), b = values(want.detach());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << "entry " << i;
}

// Derivatives of all entries of `f(x)` by all entries of `x`, by central differences: sizes of the result, then of `x`.
inline facula::Tensor differences(const std::function<facula::Tensor(const facula::Tensor&)>& f,
                                  const facula::Tensor& at, double step = 1e-6) {
  const facula::NoGradGuard quiet;
  facula::Tensor x = at.detach().clone().contiguous();
  double* data = x.data_ptr<double>();
  std::vector<facula::Tensor> columns;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double before = data[i];
    data[i] = before + step;
    const facula::Tensor up = f(x).clone();
    data[i] = before - step;
    const facula::Tensor down = f(x).clone();
    data[i] = before;
    sizes = up.sizes().vec();
    columns.push_back(((up - down) / (2 * step)).reshape({-1}));
  }
  sizes.insert(sizes.end(), x.sizes().begin(), x.sizes().end());
  return facula::stack(columns, 1).reshape(sizes);
}

// Doubles in memory that says when it is let go of.
class Watched {
 public:
  explicit Watched(const std::vector<int64_t>& shape) : freed_(std::make_shared<int>(0)) {
    const facula::Tensor numbers = draw(shape, 0.5, 1.5);
    auto* memory = new std::vector<double>(values(numbers));
    tensor_ = facula::from_blob(
        memory->data(), shape,
        [memory, freed = freed_](void*) {
          ++*freed;
          delete memory;
        },
        facula::kDouble);
  }
  // The tensor; this object does not have it any more.
  facula::Tensor take() { return std::move(tensor_); }
  bool freed() const { return *freed_ > 0; }

 private:
  std::shared_ptr<int> freed_;
  facula::Tensor tensor_;
};

}  // namespace facula_test
