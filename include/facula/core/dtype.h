// Element types of tensors: the enum, what is known about each, and how two of them combine. The number types
// themselves live in number_types.h; result types of whole operations (which also weigh scalars and dimensions) live
// in src/core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>

#include <facula/core/export.h>
#include <facula/core/number_types.h>

// Every element type once: C++ type, enumerator, name in Python's spelling. The order is the enum's.
#define FACULA_FORALL_SCALAR_TYPES(_)                            \
  _(uint8_t, Byte, "uint8")                                      \
  _(int8_t, Char, "int8")                                        \
  _(int16_t, Short, "int16")                                     \
  _(int32_t, Int, "int32")                                       \
  _(int64_t, Long, "int64")                                      \
  _(::facula::Half, Half, "float16")                             \
  _(float, Float, "float32")                                     \
  _(double, Double, "float64")                                   \
  _(::facula::complex<::facula::Half>, ComplexHalf, "complex32") \
  _(::facula::complex<float>, ComplexFloat, "complex64")         \
  _(::facula::complex<double>, ComplexDouble, "complex128")      \
  _(bool, Bool, "bool")                                          \
  _(::facula::BFloat16, BFloat16, "bfloat16")                    \
  _(::facula::Float8_e5m2, Float8_e5m2, "float8_e5m2")           \
  _(::facula::Float8_e4m3fn, Float8_e4m3fn, "float8_e4m3fn")     \
  _(uint16_t, UInt16, "uint16")                                  \
  _(uint32_t, UInt32, "uint32")                                  \
  _(uint64_t, UInt64, "uint64")

namespace facula {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // g++ takes a scoped enumerator for a shadow of the type of that name
enum class ScalarType : int8_t {
#define FACULA_ENUMERATOR(cpp, name, text) name,
  FACULA_FORALL_SCALAR_TYPES(FACULA_ENUMERATOR)
#undef FACULA_ENUMERATOR
      Undefined,
  NumOptions
};
#pragma GCC diagnostic pop

using Dtype = ScalarType;
using DType = ScalarType;

inline constexpr int kNumScalarTypes = static_cast<int>(ScalarType::Undefined);

inline constexpr ScalarType kByte = ScalarType::Byte;
inline constexpr ScalarType kUInt8 = ScalarType::Byte;
inline constexpr ScalarType kChar = ScalarType::Char;
inline constexpr ScalarType kInt8 = ScalarType::Char;
inline constexpr ScalarType kShort = ScalarType::Short;
inline constexpr ScalarType kInt16 = ScalarType::Short;
inline constexpr ScalarType kInt = ScalarType::Int;
inline constexpr ScalarType kInt32 = ScalarType::Int;
inline constexpr ScalarType kLong = ScalarType::Long;
inline constexpr ScalarType kInt64 = ScalarType::Long;
inline constexpr ScalarType kHalf = ScalarType::Half;
inline constexpr ScalarType kFloat16 = ScalarType::Half;
inline constexpr ScalarType kFloat = ScalarType::Float;
inline constexpr ScalarType kFloat32 = ScalarType::Float;
inline constexpr ScalarType kDouble = ScalarType::Double;
inline constexpr ScalarType kFloat64 = ScalarType::Double;
inline constexpr ScalarType kComplexHalf = ScalarType::ComplexHalf;
inline constexpr ScalarType kComplex32 = ScalarType::ComplexHalf;
inline constexpr ScalarType kComplexFloat = ScalarType::ComplexFloat;
inline constexpr ScalarType kComplex64 = ScalarType::ComplexFloat;
inline constexpr ScalarType kComplexDouble = ScalarType::ComplexDouble;
inline constexpr ScalarType kComplex128 = ScalarType::ComplexDouble;
inline constexpr ScalarType kBool = ScalarType::Bool;
inline constexpr ScalarType kBFloat16 = ScalarType::BFloat16;
inline constexpr ScalarType kFloat8_e5m2 = ScalarType::Float8_e5m2;
inline constexpr ScalarType kFloat8_e4m3fn = ScalarType::Float8_e4m3fn;
inline constexpr ScalarType kUInt16 = ScalarType::UInt16;
inline constexpr ScalarType kUInt32 = ScalarType::UInt32;
inline constexpr ScalarType kUInt64 = ScalarType::UInt64;

// Bytes of one element; 0 for Undefined.
constexpr size_t elementSize(ScalarType t) {
  switch (t) {
#define FACULA_CASE(cpp, name, text) \
  case ScalarType::name: return sizeof(cpp);
    FACULA_FORALL_SCALAR_TYPES(FACULA_CASE)
#undef FACULA_CASE
    default: return 0;
  }
}

constexpr bool isFloat8Type(ScalarType t) { return t == kFloat8_e5m2 || t == kFloat8_e4m3fn; }

constexpr bool isReducedFloatingType(ScalarType t) { return t == kHalf || t == kBFloat16 || isFloat8Type(t); }

constexpr bool isFloatingType(ScalarType t) { return t == kFloat || t == kDouble || isReducedFloatingType(t); }

constexpr bool isComplexType(ScalarType t) { return t == kComplexHalf || t == kComplexFloat || t == kComplexDouble; }
// What gradients can flow through.
constexpr bool isDifferentiableType(ScalarType t) { return isFloatingType(t) || isComplexType(t); }

constexpr bool isIntegralType(ScalarType t, bool includeBool = false) {
  switch (t) {
    case kByte:
    case kChar:
    case kShort:
    case kInt:
    case kLong:
    case kUInt16:
    case kUInt32:
    case kUInt64: return true;
    case kBool: return includeBool;
    default: return false;
  }
}

// The unsigned types that storage and casts know but arithmetic between dtypes does not.
constexpr bool isBarebonesUnsignedType(ScalarType t) { return t == kUInt16 || t == kUInt32 || t == kUInt64; }

constexpr bool isSignedType(ScalarType t) {
  return isFloatingType(t) || isComplexType(t) || t == kChar || t == kShort || t == kInt || t == kLong;
}

// The complex type whose parts hold `t`; Undefined where there is none.
constexpr ScalarType toComplexType(ScalarType t) {
  switch (t) {
    case kHalf:
    case kComplexHalf: return kComplexHalf;
    case kBFloat16:  // its range is float's
    case kFloat:
    case kComplexFloat: return kComplexFloat;
    case kDouble:
    case kComplexDouble: return kComplexDouble;
    default: return ScalarType::Undefined;
  }
}

// The type of the real part: itself for types that are not complex.
constexpr ScalarType toRealValueType(ScalarType t) {
  switch (t) {
    case kComplexHalf: return kHalf;
    case kComplexFloat: return kFloat;
    case kComplexDouble: return kDouble;
    default: return t;
  }
}

// "Float", "Long", ...: libtorch's names.
FACULA_API const char* toString(ScalarType t);
// "float32", "int64", ...: Python's names.
FACULA_API const char* dtype_name(ScalarType t);
FACULA_API std::ostream& operator<<(std::ostream& os, ScalarType t);
inline const char* to_text(ScalarType t) { return toString(t); }

// The smallest type of the lattice that both convert to. Undefined where there is none: between float8 and any other
// type, and between uint16, uint32 or uint64 and another integer; raising an error is the caller's part.
FACULA_API ScalarType promoteTypes(ScalarType a, ScalarType b);
inline ScalarType promote_types(ScalarType a, ScalarType b) { return promoteTypes(a, b); }

// Whether a result of type `from` may be written to `to`: the kind may grow (bool, integer, float, complex), never
// shrink.
constexpr bool canCast(ScalarType from, ScalarType to) {
  if (isComplexType(from) && !isComplexType(to)) return false;
  if (isFloatingType(from) && isIntegralType(to, false)) return false;
  return from == kBool || to != kBool;
}

template <class T>
struct CppTypeToScalarType;
template <ScalarType t>
struct ScalarTypeToCppType;
template <ScalarType t>
using ScalarTypeToCppTypeT = typename ScalarTypeToCppType<t>::type;

#define FACULA_MAPPING(cpp, name, text)                   \
  template <>                                             \
  struct CppTypeToScalarType<cpp> {                       \
    static constexpr ScalarType value = ScalarType::name; \
  };                                                      \
  template <>                                             \
  struct ScalarTypeToCppType<ScalarType::name> {          \
    using type = cpp;                                     \
  };
FACULA_FORALL_SCALAR_TYPES(FACULA_MAPPING)
#undef FACULA_MAPPING

// `long long` and `long` are distinct types of the same 64 bits; int64_t is only one of them.
template <>
struct CppTypeToScalarType<std::conditional_t<std::is_same_v<int64_t, long>, long long, long>> {
  static constexpr ScalarType value = sizeof(long) == 4 ? ScalarType::Int : ScalarType::Long;
};
template <>
struct CppTypeToScalarType<
    std::conditional_t<std::is_same_v<uint64_t, unsigned long>, unsigned long long, unsigned long>> {
  static constexpr ScalarType value = sizeof(long) == 4 ? ScalarType::UInt32 : ScalarType::UInt64;
};

template <class T>
constexpr ScalarType scalar_type_of() {
  return CppTypeToScalarType<std::remove_cv_t<T>>::value;
}

}  // namespace facula
