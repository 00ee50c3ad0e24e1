// How a new value is folded into an old one, for every dtype: what scatters and accumulating writes share.
#pragma once

#include <facula/core/number_types.h>

#include <cstdint>
#include <type_traits>

namespace facula::detail {

struct SetTo {
  template <class T>
  static void apply(T& a, const T& b) {
    a = b;
  }
};

// Integers wrap; bools are or-ed, and-ed.
struct AddTo {
  template <class T>
  static void apply(T& a, const T& b) {
    if constexpr (std::is_same_v<T, bool>) a = a || b;
    else if constexpr (std::is_integral_v<T>) a = static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else a += b;
  }
};

struct MulTo {
  template <class T>
  static void apply(T& a, const T& b) {
    if constexpr (std::is_same_v<T, bool>) a = a && b;
    else if constexpr (std::is_integral_v<T>) a = static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else a *= b;
  }
};

// NaN wins over every number.
struct MaxTo {
  template <class T>
  static void apply(T& a, const T& b) {
    if constexpr (is_narrow_float_v<T>) {
      const float x = a, y = b;
      a = y > x || y != y ? b : a;
    } else {
      a = b > a || b != b ? b : a;
    }
  }
};

struct MinTo {
  template <class T>
  static void apply(T& a, const T& b) {
    if constexpr (is_narrow_float_v<T>) {
      const float x = a, y = b;
      a = y < x || y != y ? b : a;
    } else {
      a = b < a || b != b ? b : a;
    }
  }
};

// Folds n values into a row; both rows lie apart.
template <class T, class Op>
void fold_row(T* __restrict dst, int64_t dst_step, const T* __restrict src, int64_t src_step, int64_t n) {
  if (dst_step == 1 && src_step == 1) {
    for (int64_t i = 0; i < n; ++i) Op::apply(dst[i], src[i]);
  } else if (dst_step == 1 && src_step == 0) {
    const T value = *src;
    for (int64_t i = 0; i < n; ++i) Op::apply(dst[i], value);
  } else {
    for (int64_t i = 0; i < n; ++i) Op::apply(dst[i * dst_step], src[i * src_step]);
  }
}

// An element that is moved, not looked at.
struct alignas(16) Sixteen {
  uint64_t a, b;
};

template <class F>
decltype(auto) dispatch_size(size_t element_size, F&& f) {
  switch (element_size) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<Sixteen>();
  }
}

}  // namespace facula::detail
