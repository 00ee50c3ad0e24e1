// What several test files ask of tensors and of errors: the values and geometry as vectors, and that a call raises what it
// should.
#pragma once

#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace facula_test {

// In logical order.
inline std::vector<double> values(const facula::Tensor& t) {
  const facula::Tensor flat = t.to(facula::kDouble).contiguous();
  const double* data = flat.numel() != 0 ? flat.data_ptr<double>() : nullptr;
  return {data, data + flat.numel()};
}

inline std::vector<int64_t> sizes(const facula::Tensor& t) { return t.sizes().vec(); }
inline std::vector<int64_t> strides(const facula::Tensor& t) { return t.strides().vec(); }

// `f` raises an error of type E, of none above it, whose text holds `text`.
template <class E, class F>
void expect_error(F f, const std::string& text) {
  try {
    f();
    FAIL() << "no error; expected one with: " << text;
  } catch (const facula::Error& e) {
    if constexpr (!std::is_same_v<E, facula::Error>)
      if (dynamic_cast<const E*>(&e) == nullptr) FAIL() << "error of type " << e.type_name() << ": " << e.what();
    EXPECT_THAT(std::string(e.what()), ::testing::HasSubstr(text));
  }
}

#define EXPECT_RAISES(expression, Type, text)          \
  try {                                                \
    expression;                                        \
    ADD_FAILURE() << #expression " raised nothing";    \
  } catch (const Type& e) {                            \
    EXPECT_THAT(e.what(), ::testing::HasSubstr(text)); \
  }

}  // namespace facula_test
