// What all attribute structs of ops share: copies of borrowed arguments, hashing, comparing, printing. The structs themselves
// are generated (core/generated/op_attrs.h).
#pragma once

#include "core/call_hooks.h"
#include "core/hash.h"

#include <facula/tensor.h>

#include <ostream>
#include <sstream>
#include <tuple>

namespace facula::detail {

// Copies of borrowed arguments.
template <class T>
const T& owned(const T& value) {
  return value;
}
inline std::vector<int64_t> owned(IntArrayRef value) { return value.vec(); }
inline std::optional<std::vector<int64_t>> owned(OptionalIntArrayRef value) {
  return value.has_value() ? std::optional(value.value().vec()) : std::nullopt;
}
inline std::string owned(std::string_view value) { return std::string(value); }
inline std::optional<std::string> owned(std::optional<std::string_view> value) {
  return value ? std::optional<std::string>(*value) : std::nullopt;
}

// And back: what an op's function takes.
template <class T>
const T& borrowed(const T& value) {
  return value;
}
inline IntArrayRef borrowed(const std::vector<int64_t>& value) { return value; }
inline OptionalIntArrayRef borrowed(const std::optional<std::vector<int64_t>>& value) {
  return value ? OptionalIntArrayRef(IntArrayRef(*value)) : OptionalIntArrayRef();
}
inline std::string_view borrowed(const std::string& value) { return value; }
inline std::optional<std::string_view> borrowed(const std::optional<std::string>& value) {
  return value ? std::optional<std::string_view>(*value) : std::nullopt;
}

inline void write_value(std::ostream& out, bool value) { out << (value ? "true" : "false"); }
inline void write_value(std::ostream& out, const std::string& value) { out << '"' << value << '"'; }
inline void write_value(std::ostream& out, const Generator&) { out << "generator"; }
inline void write_value(std::ostream& out, const std::vector<int64_t>& value) { out << IntArrayRef(value); }
template <class T>
  requires requires(std::ostream& out, const T& value) { out << value; }
void write_value(std::ostream& out, const T& value) {
  out << value;
}
template <class T>
void write_value(std::ostream& out, const std::optional<T>& value) {
  if (value) write_value(out, *value);
  else out << "None";
}

// Values is a generated struct of attributes; this makes it an OpAttrs.
template <class Values>
class AttrsOf final : public OpAttrs {
 public:
  explicit AttrsOf(Values values) : values_(std::move(values)) {}
  const Values& values() const { return values_; }

  size_t hash() const override {
    return std::apply(
        [](const auto&... field) {
          size_t seed = 0;
          ((seed = hash_combine(seed, hash_value(field))), ...);
          return seed;
        },
        values_.fields());
  }
  bool equals(const OpAttrs& other) const override {
    const auto* same = dynamic_cast<const AttrsOf*>(&other);
    return same != nullptr && same->values_ == values_;
  }
  std::string to_string() const override {
    std::ostringstream out;
    std::apply(
        [&](const auto&... field) {
          size_t i = 0;
          ((out << (i == 0 ? "" : ", ") << Values::kNames[i] << '=', write_value(out, field), ++i), ...);
        },
        values_.fields());
    return out.str();
  }

 private:
  Values values_;
};

}  // namespace facula::detail
