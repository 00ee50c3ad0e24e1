// How errors, shapes, devices, scalars and options read as text.
#include <facula/core/array_ref.h>
#include <facula/core/device.h>
#include <facula/core/error.h>
#include <facula/core/memory_format.h>
#include <facula/core/scalar.h>
#include <facula/core/tensor_options.h>

#include <charconv>
#include <cstdio>
#include <ostream>
#include <sstream>

namespace facula {

namespace detail {

Part::Part(const char* s) : text_(s ? s : "(null)") {}
Part::Part(bool v) : text_(v ? "true" : "false") {}
Part::Part(int v) : text_(std::to_string(v)) {}
Part::Part(long v) : text_(std::to_string(v)) {}
Part::Part(long long v) : text_(std::to_string(v)) {}
Part::Part(unsigned v) : text_(std::to_string(v)) {}
Part::Part(unsigned long v) : text_(std::to_string(v)) {}
Part::Part(unsigned long long v) : text_(std::to_string(v)) {}
Part::Part(double v) {
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), v);
  text_.assign(buffer, error == std::errc() ? end : buffer);
}
Part::Part(const void* value, void (*print)(std::ostream& out, const void* value)) {
  std::ostringstream out;
  print(out, value);
  text_ = std::move(out).str();
}

std::string concat(std::initializer_list<Part> parts) {
  std::string out;
  for (const Part& p : parts) out += p.text();
  return out;
}

void raise_array_range(size_t start, size_t count, size_t size) {
  throw IndexError(
      str("ArrayRef: invalid slice, ", count, " element(s) from index ", start, " of an array of size ", size));
}

}  // namespace detail

std::string to_text(IntArrayRef values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out += ", ";
    out += std::to_string(values[i]);
  }
  return out + "]";
}
std::ostream& operator<<(std::ostream& out, IntArrayRef values) { return out << to_text(values); }

namespace {
const char* device_type_name(DeviceType type) {
  switch (type) {
    case DeviceType::CPU: return "cpu";
    case DeviceType::CUDA: return "cuda";
    case DeviceType::Meta: return "meta";
  }
  return "unknown";
}
}  // namespace

Device::Device(std::string_view text) : type_(DeviceType::CPU), index_(-1) {
  auto colon = text.find(':');
  std::string_view name = text.substr(0, colon);
  bool known = true;
  if (name == "cpu") type_ = DeviceType::CPU;
  else if (name == "cuda") type_ = DeviceType::CUDA;
  else if (name == "meta") type_ = DeviceType::Meta;
  else known = false;
  if (known && colon != std::string_view::npos) {
    std::string_view digits = text.substr(colon + 1);
    int index = -1;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    known = error == std::errc() && end == digits.data() + digits.size() && index >= 0 && index < 128 &&
            (digits.size() == 1 || digits[0] != '0');
    index_ = static_cast<DeviceIndex>(index);
  }
  FACULA_CHECK(known, DeviceError, "Invalid device string: '", text, "'. Use 'cpu', 'cuda', 'cuda:N' or 'meta'");
}

std::string Device::str() const {
  std::string out = device_type_name(type_);
  if (index_ >= 0) out += ":" + std::to_string(index_);
  return out;
}
std::string to_text(const Device& device) { return device.str(); }
std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }
std::ostream& operator<<(std::ostream& out, DeviceType type) { return out << device_type_name(type); }

std::string to_text(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::Contiguous: return "Contiguous";
    case MemoryFormat::Preserve: return "Preserve";
    case MemoryFormat::ChannelsLast: return "ChannelsLast";
    case MemoryFormat::ChannelsLast3d: return "ChannelsLast3d";
  }
  return "unknown";
}
std::ostream& operator<<(std::ostream& out, MemoryFormat format) { return out << to_text(format); }
std::ostream& operator<<(std::ostream& out, Layout) { return out << "Strided"; }

std::string to_text(const TensorOptions& options) {
  return str("TensorOptions(dtype=", toString(options.dtype()), options.has_dtype() ? "" : " (default)",
             ", device=", options.device().str(), options.has_device() ? "" : " (default)",
             ", layout=Strided (default)", ", requires_grad=", options.requires_grad() ? "true" : "false (default)",
             ", pinned_memory=", options.pinned_memory() ? "true" : "false (default)",
             ", memory_format=", options.has_memory_format() ? to_text(*options.memory_format_opt()) : "(nullopt)",
             ")");
}
std::ostream& operator<<(std::ostream& out, const TensorOptions& options) { return out << to_text(options); }

std::string Scalar::str() const {
  switch (tag_) {
    case Tag::Bool: return int_ ? "true" : "false";
    case Tag::Int: return std::to_string(int_);
    case Tag::UInt: return std::to_string(static_cast<uint64_t>(int_));
    case Tag::Double: return detail::Part(real_).text();
    case Tag::Complex: return "(" + detail::Part(real_).text() + "," + detail::Part(imag_).text() + ")";
  }
  return "";
}
std::string to_text(const Scalar& scalar) { return scalar.str(); }
std::ostream& operator<<(std::ostream& out, const Scalar& scalar) { return out << scalar.str(); }

}  // namespace facula
