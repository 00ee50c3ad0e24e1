// Conversions of Scalar, and the default dtype.
#include <facula/core/scalar.h>
#include <facula/core/tensor_options.h>

#include <atomic>
#include <cmath>
#include <limits>

namespace facula {
namespace {

std::atomic<ScalarType> default_dtype{ScalarType::Float};

[[noreturn]] void refuse(const Scalar& s, const char* to) {
  throw ValueError(str("value ", s.str(), " cannot be converted to type ", to, " without overflow"));
}

}  // namespace

ScalarType get_default_dtype() { return default_dtype.load(std::memory_order_relaxed); }
void set_default_dtype(ScalarType dtype) {
  FACULA_CHECK(isFloatingType(dtype), DTypeError,
               "set_default_dtype: only floating-point types are supported as the default type, got ", toString(dtype));
  default_dtype.store(dtype, std::memory_order_relaxed);
}

ScalarType Scalar::type() const {
  switch (tag_) {
    case Tag::Bool: return ScalarType::Bool;
    case Tag::Int: return ScalarType::Long;
    case Tag::UInt: return ScalarType::UInt64;
    case Tag::Double: return ScalarType::Double;
    case Tag::Complex: return ScalarType::ComplexDouble;
  }
  return ScalarType::Undefined;
}

double Scalar::toDouble() const {
  switch (tag_) {
    case Tag::Double: return real_;
    case Tag::UInt: return static_cast<double>(static_cast<uint64_t>(int_));
    case Tag::Complex:
      if (imag_ != 0) refuse(*this, "double");
      return real_;
    default: return static_cast<double>(int_);
  }
}

int64_t Scalar::toLong() const { return checked_integer(8, true); }
int Scalar::toInt() const { return static_cast<int>(checked_integer(4, true)); }

uint64_t Scalar::toUInt64() const {
  if (tag_ == Tag::UInt) return static_cast<uint64_t>(int_);
  double d = tag_ == Tag::Double || tag_ == Tag::Complex ? toDouble() : 0;
  if (tag_ == Tag::Double || tag_ == Tag::Complex) {
    if (!(d > -1 && d < 18446744073709551616.0)) refuse(*this, "uint64_t");
    return static_cast<uint64_t>(d);
  }
  return static_cast<uint64_t>(int_);
}

int64_t Scalar::checked_integer(int bytes, bool is_signed) const {
  constexpr const char* kSigned[] = {"int8_t", "int16_t", "int", "int64_t"};
  constexpr const char* kUnsigned[] = {"uint8_t", "uint16_t", "uint32_t", "uint64_t"};
  const char* name = (is_signed ? kSigned : kUnsigned)[bytes == 8 ? 3 : bytes == 4 ? 2 : bytes - 1];
  const int bits = bytes * 8;
  // Unsigned targets accept negative values that wrap, as a C++ conversion would.
  const int64_t high = bytes == 8 ? INT64_MAX : is_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  const int64_t low = is_signed ? -high - 1 : -high;
  if (tag_ == Tag::UInt) refuse(*this, name);
  if (tag_ == Tag::Double || tag_ == Tag::Complex) {
    const double d = toDouble();
    // 2^63 is the first double beyond int64; narrower limits are doubles themselves.
    const bool fits = bytes == 8 ? d >= -9223372036854775808.0 && d < 9223372036854775808.0
                                 : d >= static_cast<double>(low) && d <= static_cast<double>(high);
    if (!fits) refuse(*this, name);
    return static_cast<int64_t>(d);
  }
  if (int_ < low || int_ > high) refuse(*this, name);
  return int_;
}

double Scalar::checked_real(double value, ScalarType dtype) const {
  double most = dtype == ScalarType::Float           ? std::numeric_limits<float>::max()
                : dtype == ScalarType::Half          ? 65504.0
                : dtype == ScalarType::BFloat16      ? 3.3895313892515355e38
                : dtype == ScalarType::Float8_e5m2   ? 57344.0
                : dtype == ScalarType::Float8_e4m3fn ? 448.0
                                                     : std::numeric_limits<double>::max();
  if (std::abs(value) > most && !std::isinf(value)) refuse(*this, dtype_name(dtype));
  return value;
}

bool Scalar::toBool() const { return !is_zero(); }

complex<double> Scalar::toComplexDouble() const {
  if (tag_ == Tag::Complex) return complex<double>(real_, imag_);
  return complex<double>(toDouble(), 0.0);
}

Scalar Scalar::operator-() const {
  FACULA_CHECK(tag_ != Tag::Bool, DTypeError, "negation of a bool scalar is not supported; use logical_not");
  switch (tag_) {
    case Tag::Double: return Scalar(-real_);
    case Tag::Complex: return Scalar(complex<double>(-real_, -imag_));
    default: return Scalar(static_cast<int64_t>(0 - static_cast<uint64_t>(int_)));
  }
}

Scalar Scalar::conj() const { return tag_ == Tag::Complex ? Scalar(complex<double>(real_, -imag_)) : *this; }

bool Scalar::operator==(const Scalar& other) const {
  if (tag_ != other.tag_) return false;
  if (tag_ == Tag::Double) return real_ == other.real_;
  if (tag_ == Tag::Complex) return real_ == other.real_ && imag_ == other.imag_;
  return int_ == other.int_;
}

}  // namespace facula
