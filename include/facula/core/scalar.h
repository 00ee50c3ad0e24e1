// One number of any kind, as a user writes it in a call: `x + 2`, `full({3}, 0.5)`.
#pragma once

#include <facula/core/dtype.h>
#include <facula/core/error.h>
#include <facula/core/number_types.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <type_traits>

namespace facula {

class FACULA_API Scalar {
 public:
  enum class Tag : uint8_t { Int, UInt, Bool, Double, Complex };

  constexpr Scalar() : Scalar(int64_t{0}) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  constexpr Scalar(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      tag_ = Tag::Bool;
      int_ = value ? 1 : 0;
    } else if constexpr (std::is_floating_point_v<T>) {
      tag_ = Tag::Double;
      real_ = static_cast<double>(value);
    } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
      // Only values that do not fit a signed integer need the unsigned kind.
      tag_ = (value >> 63) != 0 ? Tag::UInt : Tag::Int;
      int_ = static_cast<int64_t>(value);
    } else {
      tag_ = Tag::Int;
      int_ = static_cast<int64_t>(value);
    }
  }
  Scalar(Half value) : Scalar(static_cast<double>(static_cast<float>(value))) {}
  Scalar(BFloat16 value) : Scalar(static_cast<double>(static_cast<float>(value))) {}
  Scalar(Float8_e4m3fn value) : Scalar(static_cast<double>(static_cast<float>(value))) {}
  Scalar(Float8_e5m2 value) : Scalar(static_cast<double>(static_cast<float>(value))) {}
  template <class T>
  constexpr Scalar(complex<T> value)
      : tag_(Tag::Complex), real_(static_cast<double>(value.real())), imag_(static_cast<double>(value.imag())) {}

  constexpr Tag tag() const { return tag_; }
  constexpr bool isFloatingPoint() const { return tag_ == Tag::Double; }
  constexpr bool isIntegral(bool include_bool) const {
    return tag_ == Tag::Int || tag_ == Tag::UInt || (include_bool && tag_ == Tag::Bool);
  }
  constexpr bool isBoolean() const { return tag_ == Tag::Bool; }
  constexpr bool isComplex() const { return tag_ == Tag::Complex; }
  ScalarType type() const;

  constexpr bool is_zero() const {
    return tag_ == Tag::Double ? real_ == 0 : tag_ == Tag::Complex ? real_ == 0 && imag_ == 0 : int_ == 0;
  }
  constexpr bool equal_int(int64_t v) const {
    switch (tag_) {
      case Tag::Double: return real_ == static_cast<double>(v);
      case Tag::Complex: return real_ == static_cast<double>(v) && imag_ == 0;
      case Tag::UInt: return false;
      default: return int_ == v;
    }
  }

  // Conversions refuse what cannot be represented (overflow, a lost imaginary part).
  double toDouble() const;
  float toFloat() const { return to<float>(); }
  int64_t toLong() const;
  int toInt() const;
  int16_t toShort() const { return to<int16_t>(); }
  int8_t toChar() const { return to<int8_t>(); }
  uint8_t toByte() const { return to<uint8_t>(); }
  Half toHalf() const { return to<Half>(); }
  BFloat16 toBFloat16() const { return to<BFloat16>(); }
  uint64_t toUInt64() const;
  bool toBool() const;
  complex<double> toComplexDouble() const;
  complex<float> toComplexFloat() const { return to<complex<float>>(); }

  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>) return toBool();
    else if constexpr (std::is_same_v<T, uint64_t>) return toUInt64();
    else if constexpr (std::is_integral_v<T>) return static_cast<T>(checked_integer(sizeof(T), std::is_signed_v<T>));
    else if constexpr (std::is_floating_point_v<T> && sizeof(T) >= 8) return static_cast<T>(toDouble());
    else if constexpr (requires { typename T::value_type; }) {
      auto z = toComplexDouble();
      using R = typename T::value_type;
      return T(static_cast<R>(static_cast<float>(checked_real(z.real(), scalar_type_of<R>()))),
               static_cast<R>(static_cast<float>(checked_real(z.imag(), scalar_type_of<R>()))));
    } else return T(static_cast<float>(checked_real(toDouble(), scalar_type_of<T>())));
  }

  Scalar operator-() const;
  Scalar conj() const;
  bool operator==(const Scalar& other) const;
  std::string str() const;

 private:
  int64_t checked_integer(int bytes, bool is_signed) const;
  // `value` itself, once it is known to lie in the range of the narrower float `dtype`. Infinities and nan pass.
  double checked_real(double value, ScalarType dtype) const;

  Tag tag_ = Tag::Int;
  union {
    int64_t int_;
    double real_;
  };
  double imag_ = 0;
};

template <>
inline complex<double> Scalar::to<complex<double>>() const {
  return toComplexDouble();
}

FACULA_API std::string to_text(const Scalar& scalar);
FACULA_API std::ostream& operator<<(std::ostream& out, const Scalar& scalar);

}  // namespace facula
