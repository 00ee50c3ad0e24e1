// Calls a templated lambda with the C++ type of a dtype: `dispatch_dtype(t, [&]<class T>() { ... })`. The variants
// take fewer types, so that a body which only makes sense for some compiles for those only; the others raise
// DTypeError.
#pragma once

#include <facula/core/dtype.h>

namespace facula {

namespace detail {
// Raises DTypeError: `t` is none of `wanted`.
[[noreturn]] FACULA_API void raise_dispatch_error(ScalarType t, const char* wanted);
}  // namespace detail

#define FACULA_DISPATCH_CASE(name) \
  case ScalarType::name:           \
    return static_cast<F&&>(f).template operator()<ScalarTypeToCppTypeT<ScalarType::name>>();
#define FACULA_DISPATCH_INTEGERS \
  FACULA_DISPATCH_CASE(Byte)     \
  FACULA_DISPATCH_CASE(Char)     \
  FACULA_DISPATCH_CASE(Short)    \
  FACULA_DISPATCH_CASE(Int)      \
  FACULA_DISPATCH_CASE(Long)     \
  FACULA_DISPATCH_CASE(UInt16)   \
  FACULA_DISPATCH_CASE(UInt32)   \
  FACULA_DISPATCH_CASE(UInt64)
#define FACULA_DISPATCH_FLOATS \
  FACULA_DISPATCH_CASE(Half)   \
  FACULA_DISPATCH_CASE(Float)  \
  FACULA_DISPATCH_CASE(Double) \
  FACULA_DISPATCH_CASE(BFloat16)
#define FACULA_DISPATCH_FLOAT8S     \
  FACULA_DISPATCH_CASE(Float8_e5m2) \
  FACULA_DISPATCH_CASE(Float8_e4m3fn)
#define FACULA_DISPATCH_COMPLEXES    \
  FACULA_DISPATCH_CASE(ComplexHalf)  \
  FACULA_DISPATCH_CASE(ComplexFloat) \
  FACULA_DISPATCH_CASE(ComplexDouble)

template <class F>
decltype(auto) dispatch_dtype(ScalarType t, F&& f) {
  switch (t) {
    FACULA_DISPATCH_INTEGERS
    FACULA_DISPATCH_FLOATS
    FACULA_DISPATCH_FLOAT8S
    FACULA_DISPATCH_COMPLEXES
    FACULA_DISPATCH_CASE(Bool)
    default: detail::raise_dispatch_error(t, "a defined dtype");
  }
}

template <class F>
decltype(auto) dispatch_no_float8(ScalarType t, F&& f) {
  switch (t) {
    FACULA_DISPATCH_INTEGERS
    FACULA_DISPATCH_FLOATS
    FACULA_DISPATCH_COMPLEXES
    FACULA_DISPATCH_CASE(Bool)
    default: detail::raise_dispatch_error(t, "any dtype but float8");
  }
}

// Everything ordered: integers, bool and floats, float8 included.
template <class F>
decltype(auto) dispatch_real(ScalarType t, F&& f) {
  switch (t) {
    FACULA_DISPATCH_INTEGERS
    FACULA_DISPATCH_FLOATS
    FACULA_DISPATCH_FLOAT8S
    FACULA_DISPATCH_CASE(Bool)
    default: detail::raise_dispatch_error(t, "a real dtype");
  }
}

// Without bool.
template <class F>
decltype(auto) dispatch_integral(ScalarType t, F&& f) {
  switch (t) {
    FACULA_DISPATCH_INTEGERS
    default: detail::raise_dispatch_error(t, "an integer dtype");
  }
}

// Without float8.
template <class F>
decltype(auto) dispatch_floating(ScalarType t, F&& f) {
  switch (t) {
    FACULA_DISPATCH_FLOATS
    default: detail::raise_dispatch_error(t, "a floating point dtype");
  }
}

template <class F>
decltype(auto) dispatch_floating_and_complex(ScalarType t, F&& f) {
  switch (t) {
    FACULA_DISPATCH_FLOATS
    FACULA_DISPATCH_COMPLEXES
    default: detail::raise_dispatch_error(t, "a floating point or complex dtype");
  }
}

#undef FACULA_DISPATCH_CASE
#undef FACULA_DISPATCH_INTEGERS
#undef FACULA_DISPATCH_FLOATS
#undef FACULA_DISPATCH_FLOAT8S
#undef FACULA_DISPATCH_COMPLEXES

}  // namespace facula
