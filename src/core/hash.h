// Hashes of the values that an op's attributes are made of.
#pragma once

#include <facula/tensor.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace facula::detail {

inline size_t hash_combine(size_t seed, size_t value) {
  uint64_t h = seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93ULL;
  return h ^ (h >> 32);
}

inline size_t hash_value(int64_t v) { return static_cast<size_t>(v); }
inline size_t hash_value(bool v) { return v ? 1 : 0; }
// Equal numbers must hash alike: both zeros are one.
inline size_t hash_value(double v) { return v == 0 ? 0 : std::bit_cast<uint64_t>(v); }
inline size_t hash_value(std::string_view v) { return std::hash<std::string_view>()(v); }
inline size_t hash_value(const std::string& v) { return hash_value(std::string_view(v)); }
inline size_t hash_value(ScalarType v) { return static_cast<size_t>(v); }
inline size_t hash_value(MemoryFormat v) { return static_cast<size_t>(v); }
inline size_t hash_value(Device v) {
  return hash_combine(static_cast<size_t>(v.type()), static_cast<size_t>(v.index() + 1));
}
inline size_t hash_value(const Generator& v) { return reinterpret_cast<size_t>(v.impl()); }
inline size_t hash_value(const Scalar& v) {
  size_t kind = static_cast<size_t>(v.tag());
  switch (v.tag()) {
    case Scalar::Tag::Double: return hash_combine(kind, hash_value(v.toDouble()));
    case Scalar::Tag::Complex:
      return hash_combine(hash_combine(kind, hash_value(v.toComplexDouble().real())),
                          hash_value(v.toComplexDouble().imag()));
    case Scalar::Tag::UInt: return hash_combine(kind, v.toUInt64());
    default: return hash_combine(kind, static_cast<size_t>(v.toLong()));
  }
}
inline size_t hash_value(const std::vector<int64_t>& v) {
  size_t h = v.size();
  for (int64_t x : v) h = hash_combine(h, hash_value(x));
  return h;
}
template <class T>
size_t hash_value(const std::optional<T>& v) {
  return v ? hash_combine(1, hash_value(*v)) : 0;
}
inline size_t hash_value(const TensorOptions& v) {
  size_t h = hash_value(v.dtype_opt());
  h = hash_combine(h, hash_value(v.device_opt()));
  return hash_combine(h, hash_value(v.memory_format_opt()));
}

}  // namespace facula::detail
