// What may stand inside `x.index({...})`: None, Ellipsis, integers, booleans, slices, masks and index tensors.
#pragma once

#include <facula/tensor.h>

namespace facula::indexing {

struct NoneType {};
inline constexpr NoneType None{};
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis{};

// start:stop:step, each of them optional. Steps are positive.
class FACULA_API Slice {
 public:
  Slice(std::optional<int64_t> start = std::nullopt, std::optional<int64_t> stop = std::nullopt,
        std::optional<int64_t> step = std::nullopt);
  Slice(NoneType, std::optional<int64_t> stop = std::nullopt, std::optional<int64_t> step = std::nullopt)
      : Slice(std::optional<int64_t>(), stop, step) {}
  Slice(std::optional<int64_t> start, NoneType, std::optional<int64_t> step = std::nullopt)
      : Slice(start, std::optional<int64_t>(), step) {}
  Slice(NoneType, NoneType, std::optional<int64_t> step = std::nullopt)
      : Slice(std::optional<int64_t>(), std::optional<int64_t>(), step) {}
  int64_t start() const { return start_; }
  int64_t stop() const { return stop_; }
  int64_t step() const { return step_; }

 private:
  int64_t start_, stop_, step_;
};

class FACULA_API TensorIndex {
 public:
  enum class Kind : uint8_t { NewDim, Rest, Integer, Boolean, Range, Positions };
  TensorIndex(NoneType) : kind_(Kind::NewDim) {}
  TensorIndex(std::nullopt_t) : kind_(Kind::NewDim) {}
  TensorIndex(EllipsisType) : kind_(Kind::Rest) {}
  TensorIndex(const char* text);  // "..."
  template <class T>
    requires std::is_integral_v<T>
  TensorIndex(T v)
      : kind_(std::is_same_v<T, bool> ? Kind::Boolean : Kind::Integer), integer_(static_cast<int64_t>(v)) {}
  TensorIndex(indexing::Slice s) : kind_(Kind::Range), slice_(s) {}
  TensorIndex(facula::Tensor t) : kind_(Kind::Positions), tensor_(std::move(t)) {}

  Kind kind() const { return kind_; }
  int64_t integer() const { return integer_; }
  bool boolean() const { return integer_ != 0; }
  const indexing::Slice& slice() const { return slice_; }
  const facula::Tensor& tensor() const { return tensor_; }

 private:
  Kind kind_;
  int64_t integer_ = 0;
  indexing::Slice slice_;
  facula::Tensor tensor_;
};

// start:stop:step, and what an index expression is made of, as libtorch writes them.
FACULA_API std::ostream& operator<<(std::ostream& out, const Slice& slice);
FACULA_API std::ostream& operator<<(std::ostream& out, const TensorIndex& index);
FACULA_API std::ostream& operator<<(std::ostream& out, const std::vector<TensorIndex>& indices);

}  // namespace facula::indexing
