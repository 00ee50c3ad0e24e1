// What each reduction remembers of the elements it has seen: how elements come in, how two such states merge, what comes out. NaNs,
// ties and empty reductions are the CPU's (cpu/simd/reduce_ops*.cpp).
//
// A state has
//   kOrdered                    whether it looks at positions
//   reset()                     the state over no element
//   add<kEach>(x, first, step)  takes N elements in groups of kEach; element e of group g stands at first[g] + e * step
//   merge(other)                takes the elements of both
//   first(), second()           the results
#pragma once

#include "gpu/kernels/program.h"

namespace facula {

enum class ReduceOp {
  None,
  Sum,
  Prod,
  Max,
  Min,
  Any,
  All,
  ArgMax,
  ArgMin,
  MaxWithIndex,
  MinWithIndex,
  Moments,
  LogSumExp
};

template <class T>
FACULA_DEVICE T lowest_of() {
  if constexpr (kIsFloat<T>) return -expr::m::infinity(T(0));
  else if constexpr (kSame<T, int32_t>) return static_cast<T>(-2147483647 - 1);
  else if constexpr (kSame<T, int64_t>) return static_cast<T>(-9223372036854775807ll - 1);
  else return T(0);
}
template <class T>
FACULA_DEVICE T highest_of() {
  if constexpr (kIsFloat<T>) return expr::m::infinity(T(0));
  else if constexpr (kSame<T, int32_t>) return static_cast<T>(2147483647);
  else if constexpr (kSame<T, int64_t>) return static_cast<T>(9223372036854775807ll);
  else return static_cast<T>(~T(0));
}

// The fold of N values in a tree of neighbours.
template <class Fold, class T, int N>
FACULA_DEVICE T fold_tree(const T* x) {
  if constexpr (N == 1) {
    return x[0];
  } else {
    constexpr int kHalf = N / 2;
    return Fold::of(fold_tree<Fold, T, kHalf>(x), fold_tree<Fold, T, N - kHalf>(x + kHalf));
  }
}

// ---- one value ----------------------------------------------------------------------------------------------------------------

struct AddFold {
  template <class T>
  static FACULA_DEVICE T of(T a, T b) {
    if constexpr (kIsComplex<T>) return {a.re + b.re, a.im + b.im};
    else return expr::plus(a, b);
  }
  // -0 is what adds nothing: +0 would turn a sum of -0 into +0.
  template <class T>
  static FACULA_DEVICE T identity() {
    if constexpr (kIsComplex<T>) return {-cast<decltype(T::re)>(int32_t(0)), -cast<decltype(T::im)>(int32_t(0))};
    else return -cast<T>(int32_t(0));
  }
};
struct MultiplyFold {
  template <class T>
  static FACULA_DEVICE T of(T a, T b) {
    if constexpr (kIsComplex<T>) return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    else return expr::times(a, b);
  }
  template <class T>
  static FACULA_DEVICE T identity() {
    return cast<T>(int32_t(1));
  }
};
struct MaxFold {
  template <class T>
  static FACULA_DEVICE T of(T a, T b) {
    return expr::larger(a, b);
  }
  template <class T>
  static FACULA_DEVICE T identity() {
    return lowest_of<T>();
  }
  // Whether x takes the place of `best`: a NaN does, unless there is one.
  template <class T>
  static FACULA_DEVICE bool beats(T x, T best) {
    if constexpr (kIsFloat<T>) return !(x <= best) && best == best;
    else return x > best;
  }
};
struct MinFold {
  template <class T>
  static FACULA_DEVICE T of(T a, T b) {
    return expr::smaller(a, b);
  }
  template <class T>
  static FACULA_DEVICE T identity() {
    if constexpr (kIsBool<T>) return T(1);
    else return highest_of<T>();
  }
  template <class T>
  static FACULA_DEVICE bool beats(T x, T best) {
    if constexpr (kIsFloat<T>) return !(x >= best) && best == best;
    else return x < best;
  }
};
// Over bytes that are 0 or 1.
struct OrFold {
  template <class T>
  static FACULA_DEVICE T of(T a, T b) {
    return static_cast<T>(a | b);
  }
  template <class T>
  static FACULA_DEVICE T identity() {
    return T(0);
  }
};
struct AndFold {
  template <class T>
  static FACULA_DEVICE T of(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <class T>
  static FACULA_DEVICE T identity() {
    return T(1);
  }
};

template <class Fold, class T, class Position>
struct FoldState {
  static constexpr bool kOrdered = false;
  T value;

  FACULA_DEVICE void reset() { value = Fold::template identity<T>(); }
  template <int kEach, int N, int kGroups>
  FACULA_DEVICE void add(const T (&x)[N], const Position (&)[kGroups], Position) {
    value = Fold::of(value, fold_tree<Fold, T, N>(x));
  }
  FACULA_DEVICE void merge(const FoldState& other) { value = Fold::of(value, other.value); }
  FACULA_DEVICE T first() const { return value; }
  FACULA_DEVICE int32_t second() const { return 0; }
};

// The state of a reduction that has no elements at all: a sum is +0 then.
template <class State>
FACULA_DEVICE void set_nothing(State& state) {
  state.reset();
}
template <class T, class Position>
FACULA_DEVICE void set_nothing(FoldState<AddFold, T, Position>& state) {
  state.value = cast<T>(int32_t(0));
}

// ---- a value and where it stands ----------------------------------------------------------------------------------------------

// Of equal values the smallest position wins. A state over nothing stands at 0: if the result equals its value, every element does.
template <class Fold, class T, class Position, bool kWithValue>
struct PositionState {
  static constexpr bool kOrdered = true;
  T value;
  Position position;

  FACULA_DEVICE void reset() {
    value = Fold::template identity<T>();
    position = 0;
  }
  template <int kEach, int N, int kGroups>
  FACULA_DEVICE void add(const T (&x)[N], const Position (&first)[kGroups], Position step) {
    static_assert(N == kGroups * kEach, "every group has a position");
    FACULA_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      PositionState group{x[g * kEach], 0};
      FACULA_UNROLL
      for (int e = 1; e < kEach; ++e) {
        const bool take = Fold::beats(x[g * kEach + e], group.value);
        group.value = take ? x[g * kEach + e] : group.value;
        group.position = take ? Position(e) : group.position;
      }
      group.position = first[g] + group.position * step;
      merge(group);
    }
  }
  FACULA_DEVICE void merge(const PositionState& other) {
    bool equal = value == other.value;
    if constexpr (kIsFloat<T>) equal = equal || (value != value && other.value != other.value);
    const bool take = equal ? other.position < position : Fold::beats(other.value, value);
    value = take ? other.value : value;
    position = take ? other.position : position;
  }
  FACULA_DEVICE auto first() const {
    if constexpr (kWithValue) return value;
    else return static_cast<int64_t>(position);
  }
  FACULA_DEVICE int64_t second() const { return static_cast<int64_t>(position); }
};

// ---- mean and sum of squared deviations ---------------------------------------------------------------------------------------

// Elements come in groups that are in registers: their mean, then the deviations from it. Groups merge by Chan's rule in double.
template <class T, class Position>
struct MomentsState {
  static constexpr bool kOrdered = false;
  double count, mean, squares;

  FACULA_DEVICE void reset() { count = mean = squares = 0; }
  template <int kEach, int N, int kGroups>
  FACULA_DEVICE void add(const T (&x)[N], const Position (&)[kGroups], Position) {
    if constexpr (N == 1) {
      const double value = static_cast<double>(x[0]);
      take(1, value, value - value);  // of an infinity NaN
    } else {
      const T center = fold_tree<AddFold, T, N>(x) * T(1.0 / N);
      T deviation[N], square[N];
      FACULA_UNROLL
      for (int k = 0; k < N; ++k) {
        deviation[k] = x[k] - center;
        square[k] = deviation[k] * deviation[k];
      }
      const double s1 = static_cast<double>(fold_tree<AddFold, T, N>(deviation));
      const double s2 = static_cast<double>(fold_tree<AddFold, T, N>(square));
      const double shift = static_cast<double>(center);
      // Where the mean is infinite deviations are NaN, and say so in the second moment only.
      const double around = s2 - s1 * s1 * (1.0 / N);
      take(N, expr::m::isfinite(shift) ? shift + s1 * (1.0 / N) : shift, around < 0 ? 0 : around);
    }
  }
  FACULA_DEVICE void merge(const MomentsState& other) {
    if (other.count != 0) take(other.count, other.mean, other.squares);
  }
  // `n` elements with that mean, and squares of deviations from it.
  FACULA_DEVICE void take(double n, double center, double around) {
    if (count == 0) {
      count = n;
      mean = center;
      squares = around;
      return;
    }
    const double total = count + n;
    // The mean of T needs the weight of T only.
    const double part = static_cast<double>(static_cast<T>(n) / static_cast<T>(total));
    const double delta = center - mean;
    // Infinite means have no useful difference: inf and inf is inf, inf and -inf is NaN.
    mean = expr::m::isfinite(delta) ? mean + delta * part : mean + center;
    squares = squares + around + delta * delta * (count * part);
    count = total;
  }
  FACULA_DEVICE T first() const { return count == 0 ? expr::m::not_a_number(T(0)) : static_cast<T>(mean); }
  FACULA_DEVICE T second() const { return count == 0 ? expr::m::not_a_number(T(0)) : static_cast<T>(squares); }
};

// ---- logarithm of the sum of exponentials -------------------------------------------------------------------------------------

// A finite shift, the largest element so far, and the sum of exp(element - shift). The extremes stand for infinities: -inf and +inf
// less a finite shift are themselves, so that sums become 0 and inf.
template <class T, class Position>
struct LogSumExpState {
  static constexpr bool kOrdered = false;
  static constexpr T kLargest = static_cast<T>(sizeof(T) == 4 ? 3.402823466385288598e38 : 1.7976931348623157081e308);
  T shift, sum;

  // NaNs do not count as large; they reach the sum.
  struct LargestFold {
    static FACULA_DEVICE T of(T a, T b) { return a < b || a != a ? b : a; }
  };

  FACULA_DEVICE void reset() {
    shift = -kLargest;
    sum = 0;
  }
  template <int kEach, int N, int kGroups>
  FACULA_DEVICE void add(const T (&x)[N], const Position (&)[kGroups], Position) {
    const T largest = fold_tree<LargestFold, T, N>(x);
    if (largest > shift) {
      const T next = largest < kLargest ? largest : kLargest;
      sum *= expr::m::exp(shift - next);
      shift = next;
    }
    T terms[N];
    FACULA_UNROLL
    for (int k = 0; k < N; ++k) terms[k] = expr::m::exp(x[k] - shift);
    sum += fold_tree<AddFold, T, N>(terms);
  }
  FACULA_DEVICE void merge(const LogSumExpState& other) {
    const T top = shift < other.shift ? other.shift : shift;
    sum = sum * expr::m::exp(shift - top) + other.sum * expr::m::exp(other.shift - top);
    shift = top;
  }
  FACULA_DEVICE T first() const { return shift + expr::m::log(sum); }
  FACULA_DEVICE int32_t second() const { return 0; }
};

// ---- which state a reduction has ----------------------------------------------------------------------------------------------

template <ReduceOp op, class T, class Position>
struct StateFor;
#define FACULA_STATE(name, ...)                  \
  template <class T, class Position>             \
  struct StateFor<ReduceOp::name, T, Position> { \
    using type = __VA_ARGS__;                    \
  };
FACULA_STATE(Sum, FoldState<AddFold, T, Position>)
FACULA_STATE(Prod, FoldState<MultiplyFold, T, Position>)
FACULA_STATE(Max, FoldState<MaxFold, T, Position>)
FACULA_STATE(Min, FoldState<MinFold, T, Position>)
FACULA_STATE(Any, FoldState<OrFold, T, Position>)
FACULA_STATE(All, FoldState<AndFold, T, Position>)
FACULA_STATE(ArgMax, PositionState<MaxFold, T, Position, false>)
FACULA_STATE(ArgMin, PositionState<MinFold, T, Position, false>)
FACULA_STATE(MaxWithIndex, PositionState<MaxFold, T, Position, true>)
FACULA_STATE(MinWithIndex, PositionState<MinFold, T, Position, true>)
FACULA_STATE(Moments, MomentsState<T, Position>)
FACULA_STATE(LogSumExp, LogSumExpState<T, Position>)
#undef FACULA_STATE

}  // namespace facula
