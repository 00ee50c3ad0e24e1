// Running sums, products, maxima, minima and logarithms of sums along lines. A line is walked by a block in tiles, or, where lines lie
// side by side, by one thread; long lines are cut into chunks, whose totals a first launch finds. How lines are cut follows from their
// sizes alone, so every result comes from one tree.
#pragma once

#include "gpu/kernels/lines.h"

namespace facula {

// The order of members is what gpu/primitives/scan.cpp writes.
struct ScanArgs {
  Lines lines;   // input, values, indices
  void* totals;  // [lines][chunks] states
  int64_t chunk;
  int32_t chunks;
  int32_t packed;  // the input may be read, and the values written, in packs
};

enum class ScanOp { Sum, Prod, Max, Min, LogSumExp };

// What is known of a stretch of a line. none(): of an empty one.
template <ScanOp op, class V>
struct ScanState {
  V value;
  static FACULA_DEVICE ScanState none() {
    if constexpr (kIsComplex<V>) {
      using R = typename expr::lane_traits<V>::Real;
      return {{op == ScanOp::Sum ? R(0) : R(1), R(0)}};
    } else {
      return {op == ScanOp::Sum ? V(0) : V(1)};
    }
  }
  static FACULA_DEVICE ScanState of(V x, int64_t) { return {x}; }
  FACULA_DEVICE V result() const { return value; }
  struct Merge {
    FACULA_DEVICE ScanState operator()(const ScanState& a, const ScanState& b) const {
      if constexpr (op == ScanOp::Sum) return {expr::op::add::eval(a.value, b.value)};
      else return {expr::op::mul::eval(a.value, b.value)};
    }
  };
};
// Of equals the last wins, NaN beats all.
template <class V, bool kMax>
struct BestState {
  V value;
  int64_t index;
  static FACULA_DEVICE BestState none() { return {V(0), -1}; }
  static FACULA_DEVICE BestState of(V x, int64_t index) { return {x, index}; }
  FACULA_DEVICE V result() const { return value; }
  struct Merge {
    FACULA_DEVICE BestState operator()(const BestState& a, const BestState& b) const {
      if (b.index < 0) return a;
      if (a.index < 0) return b;
      const bool better = kMax ? b.value >= a.value : b.value <= a.value;
      return better || b.value != b.value ? b : a;
    }
  };
};
template <class V>
struct ScanState<ScanOp::Max, V> : BestState<V, true> {
  FACULA_DEVICE ScanState(const BestState<V, true>& s) : BestState<V, true>(s) {}
  ScanState() = default;
};
template <class V>
struct ScanState<ScanOp::Min, V> : BestState<V, false> {
  FACULA_DEVICE ScanState(const BestState<V, false>& s) : BestState<V, false>(s) {}
  ScanState() = default;
};
// The greatest entry, and the sum of exponentials relative to it.
template <>
struct ScanState<ScanOp::LogSumExp, double> {
  double top, sum;
  static FACULA_DEVICE ScanState none() { return {-expr::m::infinity(0.0), 0.0}; }
  static FACULA_DEVICE ScanState of(double x, int64_t) {
    // NaN is found in the sum.
    return x == x ? ScanState{x, 1.0} : ScanState{-expr::m::infinity(0.0), x};
  }
  FACULA_DEVICE double result() const { return expr::m::log(sum) + top; }
  struct Merge {
    static FACULA_DEVICE double scaled(const ScanState& s, double top) {
      // Equal infinities are at distance 0.
      return s.top == top ? s.sum : s.sum * expr::m::exp(s.top - top);
    }
    FACULA_DEVICE ScanState operator()(const ScanState& a, const ScanState& b) const {
      const double top = b.top > a.top ? b.top : a.top;
      return {top, scaled(a, top) + scaled(b, top)};
    }
  };
};

template <ScanOp op, DType tIn, DType tOut>
struct Scan {
  using In = Memory<tIn>;
  using Out = Memory<tOut>;
  static constexpr bool kIndexed = op == ScanOp::Max || op == ScanOp::Min;
  template <bool kLog, class V>
  struct Pick {
    using type = V;
  };
  template <class V>
  struct Pick<true, V> {
    using type = double;
  };
  using Value = typename Pick<op == ScanOp::LogSumExp, typename Out::Compute>::type;
  using State = ScanState<op, Value>;
  using Merge = typename State::Merge;
  static FACULA_DEVICE State state_of(typename In::Bits bits, int64_t index) {
    return State::of(cast<Value>(In::load(bits)), index);
  }
};

// One line of the arguments.
template <class S>
struct ScanLine {
  const typename S::In::Bits* in;
  typename S::Out::Bits* out;
  int64_t* indices;
  int64_t in_step, out_step, index_step;
  FACULA_DEVICE ScanLine(const Lines& lines, int64_t number)
      : in(lines.line<typename S::In::Bits>(0, number)),
        out(lines.line<typename S::Out::Bits>(1, number)),
        indices(nullptr),
        in_step(lines.along[0]),
        out_step(lines.along[1]),
        index_step(lines.along[2]) {
    if constexpr (S::kIndexed) indices = lines.line<int64_t>(2, number);
  }
  FACULA_DEVICE void write(int64_t i, const typename S::State& state) const {
    out[i * out_step] = S::Out::store(state.result());
    if constexpr (S::kIndexed) indices[i * index_step] = state.index;
  }
};

// What the chunks before this one come to.
template <class S>
FACULA_DEVICE typename S::State carried(const ScanArgs& args, int64_t line, int chunk) {
  const typename S::State* totals = static_cast<const typename S::State*>(args.totals) + line * args.chunks;
  typename S::State carry = S::State::none();
  FACULA_NO_UNROLL
  for (int c = 0; c < chunk; ++c) carry = typename S::Merge()(carry, totals[c]);
  return carry;
}

// ---- lines whose entries are neighbours: a block each, N entries a thread --------------------------------------------------------

template <ScanOp op, DType tIn, DType tOut, int N, bool kTotals>
FACULA_DEVICE void scan_tiles(const ScanArgs& args) {
  using S = Scan<op, tIn, tOut>;
  using State = typename S::State;
  typename S::Merge merge;
  __shared__ State room[32];
  const int64_t number = blockIdx.x;
  const int chunk = static_cast<int>(blockIdx.y);
  const ScanLine<S> line(args.lines, number);
  const int64_t begin = chunk * args.chunk;
  const int64_t end = begin + args.chunk < args.lines.n ? begin + args.chunk : args.lines.n;
  State carry = !kTotals && chunk > 0 ? carried<S>(args, number, chunk) : State::none();
  FACULA_NO_UNROLL
  for (int64_t tile = begin; tile < end; tile += static_cast<int64_t>(blockDim.x) * N) {
    const int64_t first = tile + static_cast<int64_t>(threadIdx.x) * N;
    const bool whole = args.packed != 0 && first + N <= end;
    Pack<typename S::In::Bits, N> pack;
    if (whole) {
      pack.read(line.in + first);
    } else {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e)
        if (first + e < end) pack.at[e] = line.in[(first + e) * line.in_step];
    }
    State own[N];
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) {
      const State x = first + e < end ? State(S::state_of(pack.at[e], first + e)) : State(State::none());
      own[e] = e == 0 ? x : State(merge(own[e - 1], x));
    }
    const BlockPrefix<State> prefix = block_prefix(own[N - 1], State(State::none()), room, merge);
    if constexpr (!kTotals) {
      const State before = merge(carry, prefix.before);
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) own[e] = merge(before, own[e]);
      if (whole && !S::kIndexed) {
        Pack<typename S::Out::Bits, N> results;
        FACULA_UNROLL
        for (int e = 0; e < N; ++e) results.at[e] = S::Out::store(own[e].result());
        results.write(line.out + first);
      } else {
        FACULA_UNROLL
        for (int e = 0; e < N; ++e)
          if (first + e < end) line.write(first + e, own[e]);
      }
    }
    carry = merge(carry, prefix.all);
  }
  if (kTotals && threadIdx.x == 0) static_cast<State*>(args.totals)[number * args.chunks + chunk] = carry;
}

// ---- lines that lie side by side: a thread each -----------------------------------------------------------------------------------

template <ScanOp op, DType tIn, DType tOut, bool kTotals>
FACULA_DEVICE void scan_columns(const ScanArgs& args) {
  using S = Scan<op, tIn, tOut>;
  using State = typename S::State;
  typename S::Merge merge;
  constexpr int kTogether = 4;
  const int64_t number = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (number >= args.lines.count) return;
  const int chunk = static_cast<int>(blockIdx.y);
  const ScanLine<S> line(args.lines, number);
  const int64_t begin = chunk * args.chunk;
  const int64_t end = begin + args.chunk < args.lines.n ? begin + args.chunk : args.lines.n;
  State state = !kTotals && chunk > 0 ? carried<S>(args, number, chunk) : State::none();
  FACULA_NO_UNROLL
  for (int64_t i = begin; i < end; i += kTogether) {
    typename S::In::Bits x[kTogether];
    FACULA_UNROLL
    for (int k = 0; k < kTogether; ++k)
      if (i + k < end) x[k] = line.in[(i + k) * line.in_step];
    FACULA_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      if (i + k >= end) continue;
      state = merge(state, S::state_of(x[k], i + k));
      if constexpr (!kTotals) line.write(i + k, state);
    }
  }
  if constexpr (kTotals) static_cast<State*>(args.totals)[number * args.chunks + chunk] = state;
}

}  // namespace facula
