// What kind of tensor to make: dtype, device, layout, memory format. Unset fields mean "the default".
#pragma once

#include <facula/core/device.h>
#include <facula/core/dtype.h>
#include <facula/core/memory_format.h>

#include <optional>
#include <string>

namespace facula {

FACULA_API ScalarType get_default_dtype();
FACULA_API void set_default_dtype(ScalarType dtype);
inline ScalarType typeMetaToScalarType(ScalarType t) { return t; }
inline ScalarType scalarTypeToTypeMeta(ScalarType t) { return t; }

class FACULA_API TensorOptions {
 public:
  constexpr TensorOptions() = default;
  constexpr TensorOptions(ScalarType dtype) : dtype_(dtype), has_dtype_(true) {}
  constexpr TensorOptions(Device device) : device_(device), has_device_(true) {}
  constexpr TensorOptions(DeviceType type) : device_(type), has_device_(true) {}
  constexpr TensorOptions(Layout) {}
  constexpr TensorOptions(MemoryFormat format) : format_(format), has_format_(true) {}

  [[nodiscard]] constexpr TensorOptions dtype(std::optional<ScalarType> t) const {
    auto r = *this;
    r.has_dtype_ = t.has_value();
    if (t) r.dtype_ = *t;
    return r;
  }
  [[nodiscard]] constexpr TensorOptions device(std::optional<Device> d) const {
    auto r = *this;
    r.has_device_ = d.has_value();
    if (d) r.device_ = *d;
    return r;
  }
  [[nodiscard]] constexpr TensorOptions device(DeviceType type, DeviceIndex index = -1) const {
    return device(Device(type, index));
  }
  [[nodiscard]] constexpr TensorOptions layout(Layout) const { return *this; }
  [[nodiscard]] constexpr TensorOptions memory_format(std::optional<MemoryFormat> f) const {
    auto r = *this;
    r.has_format_ = f.has_value();
    if (f) r.format_ = *f;
    return r;
  }
  [[nodiscard]] constexpr TensorOptions requires_grad(bool requires_grad) const {
    auto r = *this;
    r.requires_grad_ = requires_grad;
    return r;
  }
  // Host memory that a GPU can reach; without a GPU the same as any other.
  [[nodiscard]] constexpr TensorOptions pinned_memory(bool pinned) const {
    auto r = *this;
    r.pinned_ = pinned;
    return r;
  }
  [[nodiscard]] constexpr TensorOptions merge_in(const TensorOptions& other) const {
    auto r = *this;
    if (other.has_dtype_) r = r.dtype(other.dtype_);
    if (other.has_device_) r = r.device(std::optional<Device>(other.device_));
    if (other.has_format_) r = r.memory_format(other.format_);
    r.requires_grad_ |= other.requires_grad_;
    r.pinned_ |= other.pinned_;
    return r;
  }

  ScalarType dtype() const { return has_dtype_ ? dtype_ : get_default_dtype(); }
  constexpr Device device() const { return has_device_ ? device_ : Device(kCPU); }
  constexpr Layout layout() const { return kStrided; }
  constexpr bool requires_grad() const { return requires_grad_; }
  constexpr bool pinned_memory() const { return pinned_; }
  constexpr bool has_dtype() const { return has_dtype_; }
  constexpr bool has_device() const { return has_device_; }
  constexpr bool has_memory_format() const { return has_format_; }
  constexpr std::optional<ScalarType> dtype_opt() const {
    return has_dtype_ ? std::optional<ScalarType>(dtype_) : std::nullopt;
  }
  constexpr std::optional<Device> device_opt() const {
    return has_device_ ? std::optional<Device>(device_) : std::nullopt;
  }
  constexpr std::optional<MemoryFormat> memory_format_opt() const {
    return has_format_ ? std::optional<MemoryFormat>(format_) : std::nullopt;
  }
  constexpr bool operator==(const TensorOptions&) const = default;

 private:
  Device device_{kCPU};
  ScalarType dtype_ = ScalarType::Float;
  MemoryFormat format_ = MemoryFormat::Contiguous;
  bool has_dtype_ = false, has_device_ = false, has_format_ = false;
  bool requires_grad_ = false, pinned_ = false;
};

inline TensorOptions dtype(ScalarType t) { return TensorOptions(t); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions layout(Layout l) { return TensorOptions(l); }
inline TensorOptions memory_format(MemoryFormat f) { return TensorOptions(f); }
inline TensorOptions requires_grad(bool requires_grad = true) { return TensorOptions().requires_grad(requires_grad); }

FACULA_API std::string to_text(const TensorOptions& options);
FACULA_API std::ostream& operator<<(std::ostream& out, const TensorOptions& options);

}  // namespace facula
