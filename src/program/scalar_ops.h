// The list of scalar operations: name, arity, compute types, promotion and result of each. What an operation computes is in
// `program/expr.h`; how the CPU runs one over a tile is in `cpu/simd/`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace facula {

// What values are computed in. Memory dtypes widen to one of these on load and narrow on store.
enum class CType : uint8_t { F32, F64, I32, I64, U64, B8, C64, C128 };
inline constexpr size_t kCTypeCount = 8;

// Sets of compute types, one bit per CType.
constexpr uint8_t ctype_bit(CType type) { return static_cast<uint8_t>(1u << static_cast<unsigned>(type)); }
inline constexpr uint8_t kLanesFloat = ctype_bit(CType::F32) | ctype_bit(CType::F64);
inline constexpr uint8_t kLanesInt = ctype_bit(CType::I32) | ctype_bit(CType::I64) | ctype_bit(CType::U64);
inline constexpr uint8_t kLanesBool = ctype_bit(CType::B8);
inline constexpr uint8_t kLanesComplex = ctype_bit(CType::C64) | ctype_bit(CType::C128);
inline constexpr uint8_t kLanesReal = kLanesFloat | kLanesInt | kLanesBool;
inline constexpr uint8_t kLanesNumber = kLanesFloat | kLanesInt | kLanesComplex;
inline constexpr uint8_t kLanesFloatInt = kLanesFloat | kLanesInt;
inline constexpr uint8_t kLanesFloatComplex = kLanesFloat | kLanesComplex;
inline constexpr uint8_t kLanesIntBool = kLanesInt | kLanesBool;
inline constexpr uint8_t kLanesAll = kLanesReal | kLanesComplex;

constexpr size_t size_of(CType type) {
  constexpr uint8_t kSizes[kCTypeCount] = {4, 8, 4, 8, 8, 1, 8, 16};
  return kSizes[static_cast<size_t>(type)];
}

// The real compute type of a complex one; every other type is its own.
constexpr CType real_of(CType type) {
  return type == CType::C64 ? CType::F32 : type == CType::C128 ? CType::F64 : type;
}

// Keep: computes in the promoted dtype of the operands. IntToFloat: integers and bool become the default float dtype first.
enum class Promotion : uint8_t { Keep, IntToFloat };

// Type of the result relative to the compute type. RealOf: the real type of a complex one, else the same.
// ComplexOf: the complex type over a float one.
enum class ResultKind : uint8_t { Same, Bool, RealOf, ComplexOf };

constexpr CType result_type(ResultKind kind, CType type) {
  switch (kind) {
    case ResultKind::Bool: return CType::B8;
    case ResultKind::RealOf: return real_of(type);
    case ResultKind::ComplexOf: return type == CType::F64 ? CType::C128 : CType::C64;
    case ResultKind::Same: break;
  }
  return type;
}

// The lists below are apart only so that the CPU tile functions compile in several translation units; everybody else reads
// FACULA_SCALAR_OPS. X(name, arity, lanes, promotion, result)

// Arithmetic, signs, rounding, choice: short sequences of instructions.
#define FACULA_SCALAR_OPS_ARITHMETIC(X)                  \
  X(positive, 1, kLanesNumber, Keep, Same)               \
  X(neg, 1, kLanesNumber, Keep, Same)                    \
  X(abs, 1, kLanesNumber, Keep, RealOf)                  \
  X(abs2, 1, kLanesNumber, Keep, RealOf)                 \
  X(sign, 1, kLanesReal, Keep, Same)                     \
  X(sgn, 1, kLanesAll, Keep, Same)                       \
  X(ceil, 1, kLanesFloatInt, Keep, Same)                 \
  X(floor, 1, kLanesFloatInt, Keep, Same)                \
  X(round, 1, kLanesFloatInt, Keep, Same)                \
  X(trunc, 1, kLanesFloatInt, Keep, Same)                \
  X(frac, 1, kLanesFloat, Keep, Same)                    \
  X(sqrt, 1, kLanesFloatComplex, IntToFloat, Same)       \
  X(rsqrt, 1, kLanesFloatComplex, IntToFloat, Same)      \
  X(square, 1, kLanesNumber, Keep, Same)                 \
  X(reciprocal, 1, kLanesFloatComplex, IntToFloat, Same) \
  X(conj, 1, kLanesAll, Keep, Same)                      \
  X(real, 1, kLanesAll, Keep, RealOf)                    \
  X(imag, 1, kLanesComplex, Keep, RealOf)                \
  X(angle, 1, kLanesFloatComplex, IntToFloat, RealOf)    \
  X(deg2rad, 1, kLanesFloat, IntToFloat, Same)           \
  X(rad2deg, 1, kLanesFloat, IntToFloat, Same)           \
  X(bitwise_not, 1, kLanesIntBool, Keep, Same)           \
  X(add, 2, kLanesAll, Keep, Same)                       \
  X(sub, 2, kLanesNumber, Keep, Same)                    \
  X(mul, 2, kLanesAll, Keep, Same)                       \
  X(div, 2, kLanesFloatComplex, IntToFloat, Same)        \
  X(div_floor, 2, kLanesFloatInt, Keep, Same)            \
  X(div_trunc, 2, kLanesFloatInt, Keep, Same)            \
  X(remainder, 2, kLanesFloatInt, Keep, Same)            \
  X(fmod, 2, kLanesFloatInt, Keep, Same)                 \
  X(copysign, 2, kLanesFloat, IntToFloat, Same)          \
  X(maximum, 2, kLanesReal, Keep, Same)                  \
  X(minimum, 2, kLanesReal, Keep, Same)                  \
  X(fmax, 2, kLanesReal, Keep, Same)                     \
  X(fmin, 2, kLanesReal, Keep, Same)                     \
  X(clamp_min, 2, kLanesReal, Keep, Same)                \
  X(clamp_max, 2, kLanesReal, Keep, Same)                \
  X(bitwise_and, 2, kLanesIntBool, Keep, Same)           \
  X(bitwise_or, 2, kLanesIntBool, Keep, Same)            \
  X(bitwise_xor, 2, kLanesIntBool, Keep, Same)           \
  X(bitwise_left_shift, 2, kLanesInt, Keep, Same)        \
  X(bitwise_right_shift, 2, kLanesInt, Keep, Same)       \
  X(heaviside, 2, kLanesReal, Keep, Same)                \
  X(gcd, 2, kLanesInt, Keep, Same)                       \
  X(lcm, 2, kLanesInt, Keep, Same)                       \
  X(nextafter, 2, kLanesFloat, Keep, Same)               \
  X(replace_nan, 2, kLanesFloat, Keep, Same)             \
  X(replace_posinf, 2, kLanesFloat, Keep, Same)          \
  X(replace_neginf, 2, kLanesFloat, Keep, Same)          \
  X(complex, 2, kLanesFloat, Keep, ComplexOf)            \
  X(add_alpha, 3, kLanesAll, Keep, Same)                 \
  X(sub_alpha, 3, kLanesNumber, Keep, Same)              \
  X(clamp, 3, kLanesReal, Keep, Same)                    \
  X(lerp, 3, kLanesFloatComplex, Keep, Same)

// Results are bool, or a bool chooses. `where` takes a bool first input at every compute type.
#define FACULA_SCALAR_OPS_COMPARE(X)       \
  X(signbit, 1, kLanesReal, Keep, Bool)    \
  X(isnan, 1, kLanesAll, Keep, Bool)       \
  X(isinf, 1, kLanesAll, Keep, Bool)       \
  X(isfinite, 1, kLanesAll, Keep, Bool)    \
  X(isposinf, 1, kLanesReal, Keep, Bool)   \
  X(isneginf, 1, kLanesReal, Keep, Bool)   \
  X(logical_not, 1, kLanesAll, Keep, Bool) \
  X(eq, 2, kLanesAll, Keep, Bool)          \
  X(ne, 2, kLanesAll, Keep, Bool)          \
  X(lt, 2, kLanesReal, Keep, Bool)         \
  X(le, 2, kLanesReal, Keep, Bool)         \
  X(gt, 2, kLanesReal, Keep, Bool)         \
  X(ge, 2, kLanesReal, Keep, Bool)         \
  X(logical_and, 2, kLanesAll, Keep, Bool) \
  X(logical_or, 2, kLanesAll, Keep, Bool)  \
  X(logical_xor, 2, kLanesAll, Keep, Bool) \
  X(where, 3, kLanesAll, Keep, Same)

// Exponentials, logarithms, powers.
#define FACULA_SCALAR_OPS_EXPLOG(X)                 \
  X(exp, 1, kLanesFloatComplex, IntToFloat, Same)   \
  X(exp2, 1, kLanesFloatComplex, IntToFloat, Same)  \
  X(expm1, 1, kLanesFloatComplex, IntToFloat, Same) \
  X(log, 1, kLanesFloatComplex, IntToFloat, Same)   \
  X(log2, 1, kLanesFloatComplex, IntToFloat, Same)  \
  X(log10, 1, kLanesFloatComplex, IntToFloat, Same) \
  X(log1p, 1, kLanesFloatComplex, IntToFloat, Same) \
  X(pow, 2, kLanesNumber, Keep, Same)               \
  X(logaddexp, 2, kLanesFloat, Keep, Same)          \
  X(logaddexp2, 2, kLanesFloat, Keep, Same)         \
  X(xlogy, 2, kLanesFloat, IntToFloat, Same)        \
  X(xlog1py, 2, kLanesFloat, IntToFloat, Same)      \
  X(logit, 2, kLanesFloat, IntToFloat, Same)

// Circular and hyperbolic functions.
#define FACULA_SCALAR_OPS_TRIG(X)                   \
  X(sin, 1, kLanesFloatComplex, IntToFloat, Same)   \
  X(cos, 1, kLanesFloatComplex, IntToFloat, Same)   \
  X(tan, 1, kLanesFloatComplex, IntToFloat, Same)   \
  X(asin, 1, kLanesFloatComplex, IntToFloat, Same)  \
  X(acos, 1, kLanesFloatComplex, IntToFloat, Same)  \
  X(atan, 1, kLanesFloatComplex, IntToFloat, Same)  \
  X(sinh, 1, kLanesFloatComplex, IntToFloat, Same)  \
  X(cosh, 1, kLanesFloatComplex, IntToFloat, Same)  \
  X(tanh, 1, kLanesFloatComplex, IntToFloat, Same)  \
  X(asinh, 1, kLanesFloatComplex, IntToFloat, Same) \
  X(acosh, 1, kLanesFloatComplex, IntToFloat, Same) \
  X(atanh, 1, kLanesFloatComplex, IntToFloat, Same) \
  X(sinc, 1, kLanesFloatComplex, IntToFloat, Same)  \
  X(atan2, 2, kLanesFloat, IntToFloat, Same)        \
  X(hypot, 2, kLanesFloat, Keep, Same)              \
  X(polar, 2, kLanesFloat, Keep, ComplexOf)

// Activations of neural networks.
#define FACULA_SCALAR_OPS_ACTIVATION(X)               \
  X(sigmoid, 1, kLanesFloatComplex, IntToFloat, Same) \
  X(relu, 1, kLanesFloatInt, Keep, Same)              \
  X(relu6, 1, kLanesFloatInt, Keep, Same)             \
  X(silu, 1, kLanesFloatComplex, Keep, Same)          \
  X(mish, 1, kLanesFloat, Keep, Same)                 \
  X(gelu, 1, kLanesFloat, Keep, Same)                 \
  X(gelu_tanh, 1, kLanesFloat, Keep, Same)            \
  X(selu, 1, kLanesFloat, Keep, Same)                 \
  X(hardsigmoid, 1, kLanesFloat, Keep, Same)          \
  X(hardswish, 1, kLanesFloat, Keep, Same)            \
  X(log_sigmoid, 1, kLanesFloat, Keep, Same)          \
  X(softsign, 1, kLanesFloat, Keep, Same)             \
  X(tanhshrink, 1, kLanesFloat, Keep, Same)           \
  X(leaky_relu, 2, kLanesFloat, Keep, Same)           \
  X(hardshrink, 2, kLanesFloat, Keep, Same)           \
  X(softshrink, 2, kLanesFloat, Keep, Same)           \
  X(celu, 2, kLanesFloat, Keep, Same)                 \
  X(hardtanh, 3, kLanesFloatInt, Keep, Same)          \
  X(threshold, 3, kLanesFloatInt, Keep, Same)         \
  X(softplus, 3, kLanesFloat, Keep, Same)             \
  X(elu, 3, kLanesFloat, Keep, Same)

// Error function, gamma and Bessel functions.
#define FACULA_SCALAR_OPS_SPECIAL(X)             \
  X(erf, 1, kLanesFloat, IntToFloat, Same)       \
  X(erfc, 1, kLanesFloat, IntToFloat, Same)      \
  X(erfinv, 1, kLanesFloat, IntToFloat, Same)    \
  X(lgamma, 1, kLanesFloat, IntToFloat, Same)    \
  X(digamma, 1, kLanesFloat, IntToFloat, Same)   \
  X(polygamma, 2, kLanesFloat, IntToFloat, Same) \
  X(i0, 1, kLanesFloat, IntToFloat, Same)        \
  X(i0e, 1, kLanesFloat, IntToFloat, Same)       \
  X(i1, 1, kLanesFloat, IntToFloat, Same)        \
  X(i1e, 1, kLanesFloat, IntToFloat, Same)       \
  X(entr, 1, kLanesFloat, IntToFloat, Same)      \
  X(ndtr, 1, kLanesFloat, IntToFloat, Same)

#define FACULA_SCALAR_OPS(X)      \
  FACULA_SCALAR_OPS_ARITHMETIC(X) \
  FACULA_SCALAR_OPS_COMPARE(X)    \
  FACULA_SCALAR_OPS_EXPLOG(X)     \
  FACULA_SCALAR_OPS_TRIG(X)       \
  FACULA_SCALAR_OPS_ACTIVATION(X) \
  FACULA_SCALAR_OPS_SPECIAL(X)

enum class ScalarOp : uint16_t {
#define FACULA_ENUMERATOR(name, arity, lanes, promotion, result) name,
  FACULA_SCALAR_OPS(FACULA_ENUMERATOR)
#undef FACULA_ENUMERATOR
};

struct ScalarOpInfo {
  const char* name;
  uint8_t arity;
  uint8_t lanes;  // set of ctype_bit()
  Promotion promotion;
  ResultKind result;

  constexpr bool exists_for(CType type) const { return (lanes & ctype_bit(type)) != 0; }
};

inline constexpr ScalarOpInfo kScalarOps[] = {
#define FACULA_INFO(name, arity, lanes, promotion, result) \
  {#name, arity, lanes, Promotion::promotion, ResultKind::result},
    FACULA_SCALAR_OPS(FACULA_INFO)
#undef FACULA_INFO
};
inline constexpr size_t kScalarOpCount = sizeof(kScalarOps) / sizeof(kScalarOps[0]);

constexpr const ScalarOpInfo& info(ScalarOp op) { return kScalarOps[static_cast<size_t>(op)]; }

}  // namespace facula
