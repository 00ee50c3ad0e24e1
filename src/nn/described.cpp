// Printing of modules, checks of their options, and errors that name the module they happened in.
#include "nn/described.h"

#include <facula/autograd/modes.h>

#include <ostream>
#include <sstream>

namespace facula {

void detail::expand_sizes(ArrayRef<int64_t> given, int64_t* into, size_t wanted) {
  FACULA_CHECK(given.size() == wanted || given.size() == 1, ValueError, "Expected ", wanted,
               " values, but instead got ", given.size(), "; give one for each dim, or one for all");
  for (size_t i = 0; i < wanted; ++i) into[i] = given[given.size() == 1 ? 0 : i];
}

std::string detail::sizes_text(const int64_t* sizes, size_t count) {
  return count == 1 ? std::to_string(*sizes) : to_text(IntArrayRef(sizes, count));
}

std::ostream& print_sizes(std::ostream& out, ArrayRef<int64_t> sizes) {
  return out << detail::sizes_text(sizes.data(), sizes.size());
}

int64_t enumtype::reduction_of(Id id) {
  if (id == Id::None) return Reduction::None;
  if (id == Id::Mean || id == Id::BatchMean) return Reduction::Mean;
  FACULA_CHECK(id == Id::Sum, ValueError, kNames[static_cast<size_t>(id)],
               " is not a valid value for reduction; use kNone, kMean or kSum");
  return Reduction::Sum;
}

namespace nn {

Printed::Printed(std::ostream& stream, const char* name) : stream_(stream) { stream_ << name << '('; }
Printed::~Printed() { stream_ << ')'; }

std::ostream& Printed::begin(const char* label) {
  if (!first_) stream_ << ", ";
  first_ = false;
  return *label ? stream_ << label << '=' : stream_;
}

Printed& Printed::value(const char* label, int64_t value) {
  begin(label) << value;
  return *this;
}
Printed& Printed::value(const char* label, double value) {
  begin(label) << value;
  return *this;
}
Printed& Printed::value(const char* label, bool value) {
  begin(label) << (value ? "true" : "false");
  return *this;
}
Printed& Printed::value(const char* label, const std::string& value) {
  begin(label) << value;
  return *this;
}
Printed& Printed::value(const char* label, const std::vector<int64_t>& sizes) {
  begin(label) << to_text(IntArrayRef(sizes));
  return *this;
}

std::string in_braces(const std::vector<int64_t>& sizes) {
  std::string text = to_text(IntArrayRef(sizes));
  text.front() = '{';
  text.back() = '}';
  return text;
}

void require_divisible(const char* module, const char* name, int64_t value, const char* by, int64_t divisor) {
  FACULA_CHECK(divisor > 0 && value % divisor == 0, ValueError, module, ": ", name, " must be divisible by ", by,
               ", but got ", name, "=", value, " and ", by, "=", divisor, "; change one of them");
}

void require_between(const char* module, const char* name, double value, double low, double high) {
  FACULA_CHECK(value >= low && value <= high, ValueError, module, ": ", name, " has to be between ", low, " and ", high,
               ", but got ", value);
}

void require_below(const char* module, const char* name, double value, const char* other, double bound) {
  FACULA_CHECK(value < bound, ValueError, module, ": ", name, " must be below ", other, ", but got ", name, "=", value,
               " and ", other, "=", bound);
}

void require_positive(const char* module, const char* name, int64_t value) {
  FACULA_CHECK(value > 0, ValueError, module, ": ", name, " must be positive, but got ", value);
}

std::vector<int64_t> joined_sizes(std::initializer_list<Size> parts) {
  std::vector<int64_t> all;
  for (const Size& part : parts) all.insert(all.end(), part.sizes().begin(), part.sizes().end());
  return all;
}

namespace {

// The option that an argument contradicts and how; empty when it does not.
std::string contradiction(const Expected& expected) {
  const int64_t dims = expected.given.defined() ? expected.given.dim() : -1;
  const std::string sizes = dims < 0 ? "an undefined tensor" : to_text(expected.given.sizes());
  if (expected.dim == Expected::kLast) {
    const auto count = static_cast<int64_t>(expected.sizes.size());
    if (dims >= count && expected.given.sizes().slice(static_cast<size_t>(dims - count)) == expected.sizes) return {};
    return str(" `", expected.argument, "` has the shape ", sizes, ", whose last sizes are not ", expected.option, "=",
               to_text(expected.sizes), ": change ", expected.option, " or the input.");
  }
  const int64_t at = expected.dim < 0 ? expected.dim + dims : expected.dim;
  if (at < 0 || at >= dims)
    return str(" `", expected.argument, "` is ", sizes, " and has no dim ", expected.dim, ", which must have the size ",
               expected.option, "=", expected.sizes[0], ".");
  const int64_t size = expected.given.size(at);
  if (size == expected.sizes[0]) return {};
  return str(" `", expected.argument, "` has the shape ", sizes, " with the size ", size, " in dim ", expected.dim,
             ", but ", expected.option, "=", expected.sizes[0], ": change ", expected.option, " to ", size,
             ", or the input.");
}

template <class Type>
[[noreturn]] void rethrow_as(const std::string& text) {
  throw Type(text);
}

}  // namespace

void rethrow_in_module(const Module& module, const Error& error, std::initializer_list<Expected> expected) {
  if (error.msg().find("\nin module ") != std::string::npos) throw;  // a module inside of this one has said it
  std::ostringstream what;
  module.pretty_print(what);
  const std::string path = module.path();
  std::string text = str(error.msg(), "\nin module ", path.empty() ? "" : str("'", path, "', "), what.str());
  std::string tensors;
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    tensors += str(tensors.empty() ? "" : ", ", item.key(), " ", to_text(item->sizes()));
  text += tensors.empty() ? "." : str(" with ", tensors, ".");
  for (const Expected& each : expected) text += contradiction(each);
  const std::string type = error.type_name();
  if (type == "ShapeError") rethrow_as<ShapeError>(text);
  if (type == "DTypeError") rethrow_as<DTypeError>(text);
  if (type == "DeviceError") rethrow_as<DeviceError>(text);
  if (type == "IndexError") rethrow_as<IndexError>(text);
  if (type == "ValueError") rethrow_as<ValueError>(text);
  if (type == "NotSupportedError") rethrow_as<NotSupportedError>(text);
  if (type == "NanError") rethrow_as<NanError>(text);
  if (type == "Error") rethrow_as<Error>(text);
  throw;  // types that programs catch for what they carry, such as OutOfMemoryError
}

}  // namespace nn
}  // namespace facula
