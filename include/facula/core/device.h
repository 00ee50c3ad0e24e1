// Where a tensor lives.
#pragma once

#include <facula/core/export.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace facula {

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 2 };
inline constexpr int kDeviceTypes = 3;

inline constexpr DeviceType kCPU = DeviceType::CPU;
inline constexpr DeviceType kCUDA = DeviceType::CUDA;
inline constexpr DeviceType kMeta = DeviceType::Meta;

using DeviceIndex = int8_t;

class FACULA_API Device {
 public:
  constexpr Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  // "cpu", "cuda", "cuda:1", "meta"
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}
  Device(const std::string& text) : Device(std::string_view(text)) {}

  constexpr DeviceType type() const { return type_; }
  constexpr DeviceIndex index() const { return index_; }
  constexpr bool has_index() const { return index_ >= 0; }
  constexpr bool is_cpu() const { return type_ == DeviceType::CPU; }
  constexpr bool is_cuda() const { return type_ == DeviceType::CUDA; }
  constexpr bool is_meta() const { return type_ == DeviceType::Meta; }
  std::string str() const;
  constexpr bool operator==(const Device&) const = default;

 private:
  DeviceType type_;
  DeviceIndex index_;
};

FACULA_API std::string to_text(const Device& device);
FACULA_API std::ostream& operator<<(std::ostream& out, const Device& device);
FACULA_API std::ostream& operator<<(std::ostream& out, DeviceType type);

}  // namespace facula
