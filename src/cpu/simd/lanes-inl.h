// SIMD lanes: `Lane<float>` and `Lane<double>` over full Highway vectors, with the operators and primitives that formulas use.
// Elementary functions are in `elementary-inl.h`. Integers and bool need no lane struct: formulas over them are plain C++ that
// compilers vectorise.
//
// Included once per instruction set; the includer has included "cpu/simd/targets.h" and, through foreach_target.h, <hwy/highway.h>.
#if defined(FACULA_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACULA_LANES_INL_H_
#undef FACULA_LANES_INL_H_
#else
#define FACULA_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <stddef.h>

#include <utility>

#undef FACULA_EXPR_BEGIN
#undef FACULA_EXPR_END
// The pragmas behind Highway's macros come last: GCC 14 drops what follows them in an expansion.
#define FACULA_EXPR_BEGIN   \
  namespace facula {        \
  namespace HWY_NAMESPACE { \
  HWY_BEFORE_NAMESPACE();
#define FACULA_EXPR_END \
  }                     \
  }                     \
  HWY_AFTER_NAMESPACE();

#include "program/expr_scalar.h"

FACULA_EXPR_BEGIN

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

template <class T>
struct LaneMask {
  hn::Mask<Tag<T>> v;
};

template <class T>
struct Lane {
  Vec<T> v;
  static constexpr size_t kSize = HWY_LANES(T);
};

template <class T>
struct lane_traits<Lane<T>> {
  using Scalar = T;
  using Mask = LaneMask<T>;
  using Real = Lane<T>;
  static constexpr bool kComplex = false;
};

template <class T>
struct Splat<Lane<T>> {
  static HWY_INLINE Lane<T> of(double x) { return {hn::Set(Tag<T>(), static_cast<T>(x))}; }
};

template <class T>
HWY_INLINE Lane<T> load(const T* p) {
  return {hn::LoadU(Tag<T>(), p)};
}
template <class T>
HWY_INLINE void store(Lane<T> x, T* p) {
  hn::StoreU(x.v, Tag<T>(), p);
}
template <class T>
HWY_INLINE Complex<Lane<T>> load_complex(const T* p) {
  Complex<Lane<T>> z;
  hn::LoadInterleaved2(Tag<T>(), p, z.re.v, z.im.v);
  return z;
}
template <class T>
HWY_INLINE void store_complex(Complex<Lane<T>> z, T* p) {
  hn::StoreInterleaved2(z.re.v, z.im.v, Tag<T>(), p);
}

template <class T>
HWY_INLINE Lane<T> operator+(Lane<T> a, Lane<T> b) {
  return {hn::Add(a.v, b.v)};
}
template <class T>
HWY_INLINE Lane<T> operator-(Lane<T> a, Lane<T> b) {
  return {hn::Sub(a.v, b.v)};
}
template <class T>
HWY_INLINE Lane<T> operator*(Lane<T> a, Lane<T> b) {
  return {hn::Mul(a.v, b.v)};
}
template <class T>
HWY_INLINE Lane<T> operator/(Lane<T> a, Lane<T> b) {
  return {hn::Div(a.v, b.v)};
}
template <class T>
HWY_INLINE Lane<T> operator-(Lane<T> a) {
  return {hn::Xor(a.v, hn::Set(Tag<T>(), static_cast<T>(-0.0)))};
}
template <class T>
HWY_INLINE LaneMask<T> operator==(Lane<T> a, Lane<T> b) {
  return {hn::Eq(a.v, b.v)};
}
template <class T>
HWY_INLINE LaneMask<T> operator!=(Lane<T> a, Lane<T> b) {
  return {hn::Not(hn::Eq(a.v, b.v))};
}
template <class T>
HWY_INLINE LaneMask<T> operator<(Lane<T> a, Lane<T> b) {
  return {hn::Lt(a.v, b.v)};
}
template <class T>
HWY_INLINE LaneMask<T> operator<=(Lane<T> a, Lane<T> b) {
  return {hn::Le(a.v, b.v)};
}
template <class T>
HWY_INLINE LaneMask<T> operator>(Lane<T> a, Lane<T> b) {
  return {hn::Gt(a.v, b.v)};
}
template <class T>
HWY_INLINE LaneMask<T> operator>=(Lane<T> a, Lane<T> b) {
  return {hn::Ge(a.v, b.v)};
}
template <class T>
HWY_INLINE LaneMask<T> operator&(LaneMask<T> a, LaneMask<T> b) {
  return {hn::And(a.v, b.v)};
}
template <class T>
HWY_INLINE LaneMask<T> operator|(LaneMask<T> a, LaneMask<T> b) {
  return {hn::Or(a.v, b.v)};
}
template <class T>
HWY_INLINE LaneMask<T> operator!(LaneMask<T> a) {
  return {hn::Not(a.v)};
}

namespace m {

template <class T>
HWY_INLINE Lane<T> select(LaneMask<T> c, Lane<T> a, Lane<T> b) {
  return {hn::IfThenElse(c.v, a.v, b.v)};
}
template <class T>
HWY_INLINE Complex<Lane<T>> select(LaneMask<T> c, Complex<Lane<T>> a, Complex<Lane<T>> b) {
  return {m::select(c, a.re, b.re), m::select(c, a.im, b.im)};
}
// The bound comes first: where one of two is NaN, processors give the second or NaN.
template <class T>
HWY_INLINE Lane<T> at_least(Lane<T> x, Lane<T> low) {
  return {hn::Max(low.v, x.v)};
}
template <class T>
HWY_INLINE Lane<T> at_most(Lane<T> x, Lane<T> high) {
  return {hn::Min(high.v, x.v)};
}
template <class T>
HWY_INLINE Lane<T> fma(Lane<T> a, Lane<T> b, Lane<T> c) {
  return {hn::MulAdd(a.v, b.v, c.v)};
}
template <class T>
HWY_INLINE Lane<T> abs(Lane<T> x) {
  return {hn::Abs(x.v)};
}
template <class T>
HWY_INLINE Lane<T> sqrt(Lane<T> x) {
  return {hn::Sqrt(x.v)};
}
template <class T>
HWY_INLINE Lane<T> floor(Lane<T> x) {
  return {hn::Floor(x.v)};
}
template <class T>
HWY_INLINE Lane<T> ceil(Lane<T> x) {
  return {hn::Ceil(x.v)};
}
template <class T>
HWY_INLINE Lane<T> trunc(Lane<T> x) {
  return {hn::Trunc(x.v)};
}
template <class T>
HWY_INLINE Lane<T> round(Lane<T> x) {
  return {hn::Round(x.v)};
}
template <class T>
HWY_INLINE Lane<T> copysign(Lane<T> x, Lane<T> s) {
  return {hn::CopySign(x.v, s.v)};
}
template <class T>
HWY_INLINE LaneMask<T> isnan(Lane<T> x) {
  return x != x;
}
template <class T>
HWY_INLINE LaneMask<T> isinf(Lane<T> x) {
  return m::abs(x) > Lane<T>{hn::Set(Tag<T>(), hwy::HighestValue<T>())};
}
template <class T>
HWY_INLINE LaneMask<T> isfinite(Lane<T> x) {
  return m::abs(x) <= Lane<T>{hn::Set(Tag<T>(), hwy::HighestValue<T>())};
}
template <class T>
HWY_INLINE LaneMask<T> signbit(Lane<T> x) {
  return m::copysign(splat<Lane<T>>(1.0), x) < splat<Lane<T>>(0.0);
}
template <class L, class T>
HWY_INLINE L one_if(LaneMask<T> c) {
  return {hn::IfThenElseZero(c.v, hn::Set(Tag<T>(), static_cast<T>(1)))};
}
template <class T>
HWY_INLINE Lane<T> not_a_number(Lane<T>) {
  return {hn::Set(Tag<T>(), not_a_number(T(0)))};
}
template <class T>
HWY_INLINE Lane<T> infinity(Lane<T>) {
  return {hn::Set(Tag<T>(), infinity(T(0)))};
}

template <class T>
HWY_INLINE bool any(LaneMask<T> c) {
  return !hn::AllFalse(Tag<T>(), c.v);
}

}  // namespace m

// ---- several vectors as one lane ---------------------------------------------------------------------------------------------------

// Long formulas wait for their own results most of the time, and a processor does not look far enough ahead to fill that time with the
// next elements. Side by side, the same step of N vectors follows one another. Has what the formulas use that tile_loop-inl.h
// runs so.
template <class T, int N>
struct Lanes {
  Lane<T> part[N];
  static constexpr size_t kSize = N * Lane<T>::kSize;
};
template <class T, int N>
struct LanesMask {
  LaneMask<T> part[N];
};
template <class T, int N>
struct lane_traits<Lanes<T, N>> {
  using Scalar = T;
  using Mask = LanesMask<T, N>;
  using Real = Lanes<T, N>;
  static constexpr bool kComplex = false;
};

// {f(0), f(1), ...}
template <class Result, class F, size_t... K>
HWY_INLINE Result side_by_side(F f, std::index_sequence<K...>) {
  return {{f(K)...}};
}
#define FACULA_SIDE_BY_SIDE(Result, expression) \
  side_by_side<Result<T, N>>([&](size_t k) HWY_ATTR { return expression; }, std::make_index_sequence<N>())
#define FACULA_LANES_1(name)                            \
  template <class T, int N>                             \
  HWY_INLINE Lanes<T, N> name(Lanes<T, N> a) {          \
    return FACULA_SIDE_BY_SIDE(Lanes, name(a.part[k])); \
  }
#define FACULA_LANES_2(Result, name)                                \
  template <class T, int N>                                         \
  HWY_INLINE Result<T, N> name(Lanes<T, N> a, Lanes<T, N> b) {      \
    return FACULA_SIDE_BY_SIDE(Result, name(a.part[k], b.part[k])); \
  }

template <class T, int N>
struct Splat<Lanes<T, N>> {
  static HWY_INLINE Lanes<T, N> of(double x) {
    const Lane<T> one = Splat<Lane<T>>::of(x);
    return FACULA_SIDE_BY_SIDE(Lanes, (static_cast<void>(k), one));
  }
};

FACULA_LANES_1(operator-)
FACULA_LANES_2(Lanes, operator+)
FACULA_LANES_2(Lanes, operator-)
FACULA_LANES_2(Lanes, operator*)
FACULA_LANES_2(Lanes, operator/)
FACULA_LANES_2(LanesMask, operator<)
FACULA_LANES_2(LanesMask, operator>)

namespace m {

FACULA_LANES_1(abs)
FACULA_LANES_2(Lanes, at_least)
FACULA_LANES_2(Lanes, at_most)
FACULA_LANES_2(Lanes, copysign)
template <class T, int N>
HWY_INLINE Lanes<T, N> fma(Lanes<T, N> a, Lanes<T, N> b, Lanes<T, N> c) {
  return FACULA_SIDE_BY_SIDE(Lanes, fma(a.part[k], b.part[k], c.part[k]));
}
template <class T, int N>
HWY_INLINE Lanes<T, N> select(LanesMask<T, N> c, Lanes<T, N> a, Lanes<T, N> b) {
  return FACULA_SIDE_BY_SIDE(Lanes, select(c.part[k], a.part[k], b.part[k]));
}
template <class T, int N>
HWY_INLINE bool any(LanesMask<T, N> c) {
  LaneMask<T> either = c.part[0];
  for (int k = 1; k < N; ++k) either = either | c.part[k];
  return any(either);
}

}  // namespace m

FACULA_EXPR_END
#endif
