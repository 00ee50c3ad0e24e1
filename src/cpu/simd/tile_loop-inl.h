// Loops of formulas over tiles, for one instruction set: SIMD lanes for float and complex, plain element loops (which compilers
// vectorise) for integers, bool and formulas that branch. Included by the tile_ops_*.cpp files through foreach_target.h.
#if defined(FACULA_TILE_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACULA_TILE_LOOP_INL_H_
#undef FACULA_TILE_LOOP_INL_H_
#else
#define FACULA_TILE_LOOP_INL_H_
#endif

#include <string.h>

#include <atomic>

#include "cpu/simd/elementary-inl.h"
#include "cpu/simd/tile_table.h"
#include "program/expr.h"

// Elements do not depend on each other, even when the output is one of the inputs; compilers cannot know.
#undef FACULA_INDEPENDENT_LOOP
#if defined(__clang__)
#define FACULA_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define FACULA_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#endif

FACULA_EXPR_BEGIN

template <class E>
struct LaneOf {
  using type = Lane<E>;
};
template <class T>
struct LaneOf<Complex<T>> {
  using type = Complex<Lane<T>>;
};

template <class T>
HWY_INLINE Lane<T> load_lane(const T* p) {
  return load(p);
}
template <class T>
HWY_INLINE Complex<Lane<T>> load_lane(const Complex<T>* p) {
  return load_complex(reinterpret_cast<const T*>(p));
}
template <class T>
HWY_INLINE Lane<T> repeat_lane(const T* p) {
  return {hn::Set(Tag<T>(), *p)};
}
template <class T>
HWY_INLINE void store_lane(Lane<T> x, T* p) {
  store(x, p);
}
template <class T>
HWY_INLINE void store_lane(Complex<Lane<T>> x, Complex<T>* p) {
  store_complex(x, reinterpret_cast<T*>(p));
}
template <class T>
T element_of(Lane<T>);
template <class T>
Complex<T> element_of(Complex<Lane<T>>);

// Input k of a formula, where k is below its arity.
template <class Op, int kArity, class L>
HWY_INLINE auto call(L a, L b, L c) {
  if constexpr (kArity == 1) return Op::eval(a);
  else if constexpr (kArity == 2) return Op::eval(a, b);
  else return Op::eval(a, b, c);
}

template <class T, int N>
HWY_INLINE Lanes<T, N> load_lanes(const T* p) {
  return FACULA_SIDE_BY_SIDE(Lanes, load(p + k * Lane<T>::kSize));
}
template <class T, int N>
HWY_INLINE void store_lanes(const Lanes<T, N>& x, T* p) {
  for (int k = 0; k < N; ++k) store(x.part[k], p + k * Lane<T>::kSize);
}

// Long formulas: as many elements as fill N vectors side by side; returns how many those are. Flattened, since compilers would rather
// call a formula that is so long.
template <class Op, class T, int N>
HWY_FLATTEN size_t simd_several(const T* a, T* out, size_t n) {
  size_t i = 0;
  for (; i + Lanes<T, N>::kSize <= n; i += Lanes<T, N>::kSize) store_lanes(Op::eval(load_lanes<T, N>(a + i)), out + i);
  return i;
}

template <class Op, class E, int kArity, bool kLight, int kVectors>
void simd_tile(const void* a, const void* b, const void* c, void* out, size_t n);

// Less than a vector goes through a full one on the stack, in the same code: nothing past it is touched. By itself, since a frame of vectors costs
// as much as a short row. A constant is read again here: an output never holds an input's element except at the same place (overlaps are refused
// before).
template <class Op, class E, int kArity, class Out>
HWY_NOINLINE void rest_of_tile(const E* a, const E* b, const E* c, Out* out, size_t left, bool constant) {
  constexpr size_t kSize = lane_traits<typename LaneOf<E>::type>::Real::kSize;
  HWY_ALIGN E ta[kSize] = {}, tb[kSize] = {}, tc[kSize] = {};
  HWY_ALIGN Out result[kSize];
  memcpy(ta, a, left * sizeof(E));
  if (kArity > 1 && !constant) memcpy(tb, b, left * sizeof(E));
  if (constant)
    for (E& x : tb) x = *b;
  if (kArity > 2) memcpy(tc, c, left * sizeof(E));
  simd_tile<Op, E, kArity, false, 1>(ta, tb, tc, result, kSize);
  memcpy(out, result, left * sizeof(Out));
}

// kConstant: the second input is one element for the whole row. kLight: a few instructions, so that loads from the
// second-level cache are the bound: several are kept in flight. kVectors: how many vectors of a long formula go side by side.
template <class Op, class E, int kArity, bool kLight, int kVectors, bool kConstant>
HWY_INLINE void simd_row(const void* a, const void* b, const void* c, void* out, size_t n) {
  using L = typename LaneOf<E>::type;
  using Out = decltype(element_of(call<Op, kArity>(L(), L(), L())));
  constexpr size_t kSize = lane_traits<L>::Real::kSize;
  const E* pa = static_cast<const E*>(a);
  const E* pb = static_cast<const E*>(kArity > 1 ? b : a);
  const E* pc = static_cast<const E*>(kArity > 2 ? c : a);
  Out* po = static_cast<Out*>(out);
  L constant;
  if constexpr (kConstant) constant = repeat_lane(pb);
  auto at = [&](size_t i) HWY_ATTR {
    const L x = load_lane(pa + i), y = kArity == 1 ? x : kConstant ? constant : load_lane(pb + i);
    return call<Op, kArity>(x, y, kArity > 2 ? load_lane(pc + i) : x);
  };
  size_t i = 0;
  if constexpr (kLight && !lane_traits<L>::kComplex) {
    if (n == 0) return;
    if (n < kSize) return rest_of_tile<Op, E, kArity>(pa, pb, pc, po, n, kConstant);
    // The last vector may hold elements of the one before it. It is computed first, since the output may be an input.
    const size_t end = n - kSize;
    const auto last = at(end);
    // Compilers order stores by when their values are there. Where each spans two cache lines, that takes up to 1.8 times as long.
    auto keep_order = [] { std::atomic_signal_fence(std::memory_order_seq_cst); };
    for (; i + 4 * kSize < n; i += 4 * kSize) {
      const auto r0 = at(i), r1 = at(i + kSize), r2 = at(i + 2 * kSize), r3 = at(i + 3 * kSize);
      store_lane(r0, po + i), keep_order();
      store_lane(r1, po + i + kSize), keep_order();
      store_lane(r2, po + i + 2 * kSize), keep_order();
      store_lane(r3, po + i + 3 * kSize);
    }
    for (; i < end; i += kSize) store_lane(at(i), po + i);
    store_lane(last, po + end);
  } else {
    static_assert(!kConstant);
    if constexpr (kVectors > 1) i = simd_several<Op, E, kVectors>(pa, po, n);
    for (; i + kSize <= n; i += kSize) store_lane(at(i), po + i);
    if (i < n) rest_of_tile<Op, E, kArity>(pa + i, pb + i, pc + i, po + i, n - i, false);
  }
}

template <class Op, class E, int kArity, bool kLight, int kVectors>
void simd_tile(const void* a, const void* b, const void* c, void* out, size_t n) {
  static_assert(kVectors == 1 || kArity == 1);
  simd_row<Op, E, kArity, kLight, kVectors, false>(a, b, c, out, n);
}

// Rows of a light binary operation whose result has the type of its operands. In one function: calls take a tenth of the time of rows of 256.
template <class Op, class E>
void simd_rows(cpu::TileRows a, cpu::TileRows b, void* out, size_t rows, size_t cols) {
  const char *pa = static_cast<const char*>(a.data), *pb = static_cast<const char*>(b.data);
  E* po = static_cast<E*>(out);
  if (b.one_element) {
    for (size_t r = 0; r < rows; ++r, pa += a.apart, pb += b.apart, po += cols)
      simd_row<Op, E, 2, true, 1, true>(pa, pb, nullptr, po, cols);
  } else {
    for (size_t r = 0; r < rows; ++r, pa += a.apart, pb += b.apart, po += cols)
      simd_row<Op, E, 2, true, 1, false>(pa, pb, nullptr, po, cols);
  }
}

// A light binary operation on whole cache lines, past the cache.
template <class Op, class E>
void simd_streamed(const void* a, const void* b, const void*, void* out, size_t n) {
  using L = typename LaneOf<E>::type;
  const E *pa = static_cast<const E*>(a), *pb = static_cast<const E*>(b);
  E* po = static_cast<E*>(out);
  for (size_t i = 0; i < n; i += L::kSize)
    hn::Stream(Op::eval(load_lane(pa + i), load_lane(pb + i)).v, Tag<E>(), po + i);
}

// Bfloat16 as memory holds it. A vector of 32-bit words has the even elements in its low halves and the odd ones in its
// high halves, where a float has the bits of its bfloat16: neither way needs a shuffle.
struct PairsOfBFloat16 {
  Lane<float> even, odd;
};
HWY_INLINE PairsOfBFloat16 load_pairs(const uint16_t* p) {
  const Tag<uint32_t> d;
  const auto words = hn::BitCast(d, hn::LoadU(Tag<uint16_t>(), p));
  return {{hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(words))},
          {hn::BitCast(Tag<float>(), hn::And(words, hn::Set(d, 0xffff0000u)))}};
}
// The upper half of each word is x to nearest even, where x is a number. With masks in registers a choice costs less than a shift.
HWY_INLINE Vec<uint32_t> rounded_upper_half(Lane<float> x) {
  const Tag<uint32_t> d;
  const auto bits = hn::BitCast(d, x.v);
#if HWY_TARGET <= HWY_AVX3
  return hn::Add(bits,
                 hn::IfThenElse(hn::TestBit(bits, hn::Set(d, 0x10000u)), hn::Set(d, 0x8000u), hn::Set(d, 0x7fffu)));
#else
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  return hn::Add(hn::Add(bits, hn::Set(d, 0x7fffu)), odd);
#endif
}
// NaN stays one.
HWY_INLINE Vec<uint32_t> quiet_upper_half(Lane<float> x) {
  const Tag<uint32_t> d;
  const auto number = hn::RebindMask(d, hn::Eq(x.v, x.v));
  return hn::IfThenElse(number, rounded_upper_half(x), hn::Or(hn::BitCast(d, x.v), hn::Set(d, 0x400000u)));
}
// Whether one of the lanes may be NaN. AVX-512 has a comparison for it, which Highway does not offer.
HWY_INLINE bool any_nan(PairsOfBFloat16 x) {
#if HWY_TARGET == HWY_AVX3
  return _mm512_cmp_ps_mask(x.even.v.raw, x.odd.v.raw, _CMP_UNORD_Q) != 0;
#else
  return m::any(m::isnan(x.even + x.odd));  // also where infinities meet: seldom
#endif
}
HWY_INLINE void store_pairs(PairsOfBFloat16 x, uint16_t* p) {
  const Tag<uint32_t> d;
  auto even = rounded_upper_half(x.even), odd = rounded_upper_half(x.odd);
  if (HWY_UNLIKELY(any_nan(x))) even = quiet_upper_half(x.even), odd = quiet_upper_half(x.odd);
  const auto words = hn::Or(hn::ShiftRight<16>(even), hn::And(odd, hn::Set(d, 0xffff0000u)));
  hn::StoreU(hn::BitCast(Tag<uint16_t>(), words), Tag<uint16_t>(), p);
}

template <int N>
HWY_INLINE Lanes<float, N> load_lanes_of_bfloat16(const uint16_t* p) {
  Lanes<float, N> x;
  for (int k = 0; k < N; k += 2) {
    const PairsOfBFloat16 pairs = load_pairs(p + k * Lane<float>::kSize);
    x.part[k] = pairs.even, x.part[k + 1] = pairs.odd;
  }
  return x;
}
template <int N>
HWY_INLINE void store_lanes_as_bfloat16(const Lanes<float, N>& x, uint16_t* p) {
  for (int k = 0; k < N; k += 2) store_pairs({x.part[k], x.part[k + 1]}, p + k * Lane<float>::kSize);
}

template <class Op, int N>
HWY_FLATTEN size_t bfloat16_several(const uint16_t* a, uint16_t* out, size_t n) {
  static_assert(N % 2 == 0);
  size_t i = 0;
  for (; i + Lanes<float, N>::kSize <= n; i += Lanes<float, N>::kSize)
    store_lanes_as_bfloat16(Op::eval(load_lanes_of_bfloat16<N>(a + i)), out + i);
  return i;
}

// A formula over float whose inputs and output are bfloat16.
template <class Op, int kArity, int kVectors>
void bfloat16_tile(const void* a, const void* b, const void* c, void* out, size_t n) {
  constexpr size_t kSize = 2 * Lane<float>::kSize;
  const auto* pa = static_cast<const uint16_t*>(a);
  const auto* pb = static_cast<const uint16_t*>(kArity > 1 ? b : a);
  auto* po = static_cast<uint16_t*>(out);
  size_t i = 0;
  if constexpr (kVectors > 1) i = bfloat16_several<Op, kVectors>(pa, po, n);
  for (; i + kSize <= n; i += kSize) {
    const PairsOfBFloat16 x = load_pairs(pa + i), y = kArity > 1 ? load_pairs(pb + i) : x;
    store_pairs({call<Op, kArity>(x.even, y.even, x.even), call<Op, kArity>(x.odd, y.odd, x.odd)}, po + i);
  }
  if (i < n) {
    const size_t bytes = (n - i) * sizeof(uint16_t);
    HWY_ALIGN uint16_t ta[kSize] = {}, tb[kSize] = {}, result[kSize];
    memcpy(ta, pa + i, bytes);
    memcpy(tb, pb + i, bytes);
    bfloat16_tile<Op, kArity, 1>(ta, tb, nullptr, result, kSize);
    memcpy(po + i, result, bytes);
  }
}

template <class R>
struct StoredAs {
  using type = R;
};
template <>
struct StoredAs<bool> {
  using type = uint8_t;
};

template <class Op, class E, int kArity>
void scalar_tile(const void* a, const void* b, const void* c, void* out, size_t n) {
  using Out = typename StoredAs<decltype(call<Op, kArity>(E(), E(), E()))>::type;
  const E* pa = static_cast<const E*>(a);
  const E* pb = static_cast<const E*>(kArity > 1 ? b : a);
  const E* pc = static_cast<const E*>(kArity > 2 ? c : a);
  Out* po = static_cast<Out*>(out);
  if constexpr (!kIsFloatLane<E> && requires { Op::kFaultsOnZero; }) {
    E zeros = 0;
    for (size_t i = 0; i < n; ++i) zeros = static_cast<E>(zeros | static_cast<E>(pb[i] == E(0)));
    if (zeros != 0) cpu::note_division_fault();
  }
  FACULA_INDEPENDENT_LOOP
  for (size_t i = 0; i < n; ++i) po[i] = static_cast<Out>(call<Op, kArity>(pa[i], pb[i], pc[i]));
}

template <class E>
void where_tile(const void* a, const void* b, const void* c, void* out, size_t n) {
  const uint8_t* condition = static_cast<const uint8_t*>(a);
  const E* yes = static_cast<const E*>(b);
  const E* no = static_cast<const E*>(c);
  E* po = static_cast<E*>(out);
  FACULA_INDEPENDENT_LOOP
  for (size_t i = 0; i < n; ++i) po[i] = op::where::eval(condition[i] != 0, yes[i], no[i]);
}

template <class Op, class E, int kArity, ResultKind kResult, bool kLight, int kVectors = 1>
constexpr cpu::TileFn choose_tile() {
  constexpr bool kComplex = lane_traits<E>::kComplex;
  if constexpr (requires { Op::template eval<bool, E>; }) return &where_tile<E>;
  else if constexpr (!kIsFloatLane<E> || kResult == ResultKind::Bool) return &scalar_tile<Op, E, kArity>;
  else if constexpr (!kComplex && requires { Op::kScalarOnly; }) return &scalar_tile<Op, E, kArity>;
  else if constexpr (kComplex && requires { Op::kScalarOnlyComplex; }) return &scalar_tile<Op, E, kArity>;
  else return &simd_tile<Op, E, kArity, kLight, kVectors>;
}

// A few instructions on two inputs, with a result of their type.
template <class Op, int kArity, ResultKind kResult, bool kLight>
inline constexpr bool kLightBinary =
    kLight && kArity == 2 && kResult == ResultKind::Same && !requires { Op::kScalarOnly; };

template <class Op, class E, bool kBinary>
constexpr cpu::TileRowsFn choose_rows() {
  if constexpr (kBinary) return &simd_rows<Op, E>;
  else return nullptr;
}

template <class Op, class E, bool kBinary>
constexpr cpu::TileFn choose_streamed() {
  if constexpr (kBinary) return &simd_streamed<Op, E>;
  else return nullptr;
}

// What networks in bfloat16 spend time on. For the rest conversions are cheap beside the formula, and a second copy of it is not.
constexpr bool common_in_networks(ScalarOp op) {
  switch (op) {
    case ScalarOp::exp:
    case ScalarOp::tanh:
    case ScalarOp::sigmoid:
    case ScalarOp::relu:
    case ScalarOp::silu:
    case ScalarOp::gelu:
    case ScalarOp::gelu_tanh: return true;
    default: return false;
  }
}

// How many vectors of float go side by side: more for chains of more steps. sigmoid and silu, whose time is a division's, gain nothing.
constexpr int vectors_side_by_side(ScalarOp op) {
  switch (op) {
    case ScalarOp::exp:
    case ScalarOp::exp2:
    case ScalarOp::tanh:
    case ScalarOp::gelu_tanh: return 4;
    case ScalarOp::gelu: return 8;
    default: return 1;
  }
}

// Where conversions would cost more than the formula.
template <class Op, int kArity, ResultKind kResult, bool kWorth, int kVectors>
constexpr cpu::TileFn choose_bfloat16_tile() {
  constexpr bool kFloatResult = kResult == ResultKind::Same || kResult == ResultKind::RealOf;
  if constexpr (kWorth && kArity <= 2 && kFloatResult && !requires { Op::kScalarOnly; })
    return &bfloat16_tile<Op, kArity, kVectors>;
  else return nullptr;
}

template <class Op, ScalarOp kOp, uint8_t kTypes>
void add_op(cpu::TileTable& table) {
  constexpr ScalarOpInfo kInfo = info(kOp);
  constexpr uint8_t kHere = kInfo.lanes & kTypes;
  constexpr bool kLight = kOp < ScalarOp::exp;
  constexpr int kVectors = vectors_side_by_side(kOp);
  cpu::TileFn* row = table.fn[static_cast<size_t>(kOp)];
  auto slot = [row](CType type) -> cpu::TileFn& { return row[static_cast<size_t>(type)]; };
  constexpr bool kBinary = kLightBinary<Op, kInfo.arity, kInfo.result, kLight>;
  cpu::TileRowsFn* rows = table.fn_rows[static_cast<size_t>(kOp)];
  cpu::TileFn* streamed = table.fn_streamed[static_cast<size_t>(kOp)];
  if constexpr (kHere & ctype_bit(CType::F32)) {
    rows[static_cast<size_t>(CType::F32)] = choose_rows<Op, float, kBinary>();
    streamed[static_cast<size_t>(CType::F32)] = choose_streamed<Op, float, kBinary>();
  }
  if constexpr (kHere & ctype_bit(CType::F64)) {
    rows[static_cast<size_t>(CType::F64)] = choose_rows<Op, double, kBinary>();
    streamed[static_cast<size_t>(CType::F64)] = choose_streamed<Op, double, kBinary>();
  }
  if constexpr (kHere & ctype_bit(CType::F32))
    table.fn_bfloat16[static_cast<size_t>(kOp)] =
        choose_bfloat16_tile<Op, kInfo.arity, kInfo.result, (kLight || common_in_networks(kOp)), kVectors>();
  if constexpr (kHere & ctype_bit(CType::F32))
    slot(CType::F32) = choose_tile<Op, float, kInfo.arity, kInfo.result, kLight, kVectors>();
  if constexpr (kHere & ctype_bit(CType::F64))
    slot(CType::F64) = choose_tile<Op, double, kInfo.arity, kInfo.result, kLight>();
  if constexpr (kHere & ctype_bit(CType::I32))
    slot(CType::I32) = choose_tile<Op, int32_t, kInfo.arity, kInfo.result, kLight>();
  if constexpr (kHere & ctype_bit(CType::I64))
    slot(CType::I64) = choose_tile<Op, int64_t, kInfo.arity, kInfo.result, kLight>();
  if constexpr (kHere & ctype_bit(CType::U64))
    slot(CType::U64) = choose_tile<Op, uint64_t, kInfo.arity, kInfo.result, kLight>();
  if constexpr (kHere & ctype_bit(CType::B8))
    slot(CType::B8) = choose_tile<Op, uint8_t, kInfo.arity, kInfo.result, kLight>();
  if constexpr (kHere & ctype_bit(CType::C64))
    slot(CType::C64) = choose_tile<Op, Complex<float>, kInfo.arity, kInfo.result, kLight>();
  if constexpr (kHere & ctype_bit(CType::C128))
    slot(CType::C128) = choose_tile<Op, Complex<double>, kInfo.arity, kInfo.result, kLight>();
}

FACULA_EXPR_END
#endif
