// The names outside of tensors and ops that libtorch programs use: namespaces, checks, small helpers.
#pragma once

#include <facula/facula.h>

#include <iosfwd>

namespace facula {

using TensorBase = Tensor;
template <class T>
using optional = std::optional<T>;
inline constexpr std::nullopt_t nullopt = std::nullopt;

// `for (auto i : irange(n))`
class IntegerRange {
 public:
  class Iterator {
   public:
    explicit Iterator(int64_t at) : at_(at) {}
    int64_t operator*() const { return at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    int64_t at_;
  };
  IntegerRange(int64_t first, int64_t last) : first_(first), last_(last < first ? first : last) {}
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(last_); }

 private:
  int64_t first_, last_;
};
inline IntegerRange irange(int64_t last) { return {0, last}; }
inline IntegerRange irange(int64_t first, int64_t last) { return {first, last}; }

}  // namespace facula

namespace torch = facula;
namespace at = facula;
namespace c10 = facula;

#define TORCH_CHECK(condition, ...) FACULA_CHECK(condition, Error, "" __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) FACULA_INTERNAL_CHECK(condition)
