// Softmax and log_softmax and their gradients over contiguous tensors seen as [outer, n, inner].
//
// Rows (inner == 1) that fit into the registers of a team, or else into a block's shared memory, are read once and written once; longer ones
// are read a second time, by one block or by several that leave states in memory. Columns (inner > 1) are walked by threads that lie side by
// side.
#pragma once

#include "gpu/kernels/rows.h"

namespace facula {

// The order of members is what gpu/primitives/softmax.cpp writes.
struct SoftmaxArgs {
  const void* in;      // forward: the input. Backward: the incoming gradient
  const void* result;  // backward: what forward gave
  void* out;
  void* states;  // of several blocks
  int64_t rows;
  int64_t n;
  int64_t inner;
  int64_t chunk;  // elements of a row that a block takes, where several share it
  int32_t width_shift;
  int32_t chunks;
};

// What an element becomes, given the state of its row.
template <bool kLog, class C>
struct SoftmaxValue {
  C top, factor;  // factor: one over the sum, or its logarithm
  FACULA_DEVICE SoftmaxValue(C top_in, C sum) : top(top_in), factor(kLog ? expr::m::log(sum) : C(1) / sum) {}
  FACULA_DEVICE C of(C x) const {
    if constexpr (kLog) return x - top - factor;
    else return row_exp(x - top) * factor;
  }
};

// ---- rows that stay in registers ----------------------------------------------------------------------------------------------

// K packs of N elements a thread.
template <DType tIn, DType tOut, int N, int K, bool kLog>
FACULA_DEVICE void softmax_rows(const SoftmaxArgs& args) {
  using In = Memory<tIn>;
  using Out = Memory<tOut>;
  using C = typename Out::Compute;
  __shared__ C tops[kMostRowGroups], sums[kMostRowGroups];
  const RowPlace place = row_place(args.rows, args.width_shift);
  const int n = static_cast<int>(args.n);
  const int64_t start = (place.live ? place.row : 0) * n;
  const typename In::Bits* from = static_cast<const typename In::Bits*>(args.in) + start;
  const int before = elements_before<N>(from);
  const auto at = [&](int k) { return (k * place.width + place.member) * N - before; };
  C x[K][N];
  read_row<In>(from, at, place.live ? n : 0, lowest_value<C>(), x);
  C top = lowest_value<C>();
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) top = larger(top, x[k][e]);
  }
  top = team_all<true>(top, place.width, tops, LargerValue());
  C sum = C(0);
  // An element outside of the row is -inf and adds nothing, unless the row has nothing else; then every result is NaN anyway.
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) {
      const C power = row_exp(x[k][e] - top);
      sum += power;
      if constexpr (!kLog) x[k][e] = power;
    }
  }
  sum = team_all<true>(sum, place.width, sums, AddValues());
  if (!place.live) return;
  typename Out::Bits* to = static_cast<typename Out::Bits*>(args.out) + start;
  const C factor = kLog ? expr::m::log(sum) : C(1) / sum;
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) x[k][e] = kLog ? x[k][e] - top - factor : x[k][e] * factor;
    write_part<Out>(to, at(k), n, x[k]);
  }
}

// ---- long rows ----------------------------------------------------------------------------------------------------------------

// A block takes `length` elements of a row from `start` on, which counts from the first row.
struct RowPart {
  int64_t row, start, length;
};
FACULA_DEVICE RowPart row_part(const SoftmaxArgs& args) {
  RowPart part;
  part.row = blockIdx.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * args.chunk, rest = args.n - begin;
  part.start = part.row * args.n + begin;
  part.length = args.chunk < rest ? args.chunk : rest;
  return part;
}

template <DType tIn, DType tOut, int N, bool kLog, bool kKeep>
FACULA_DEVICE void finish_part(const SoftmaxArgs& args, const RowPart& part,
                               const ExpState<typename Memory<tOut>::Compute>& state,
                               const Pack<typename Memory<tIn>::Bits, N>* kept) {
  using In = Memory<tIn>;
  using Out = Memory<tOut>;
  using C = typename Out::Compute;
  typename Out::Bits* to = static_cast<typename Out::Bits*>(args.out) + part.start;
  const SoftmaxValue<kLog, C> value(state.top, state.sum);
  walk_second<In, N, kKeep>(static_cast<const typename In::Bits*>(args.in) + part.start, part.length, kept,
                            [&](int64_t at, C(&x)[N]) {
                              FACULA_UNROLL
                              for (int e = 0; e < N; ++e) x[e] = value.of(x[e]);
                              write_part<Out>(to, at, part.length, x);
                            });
}
template <DType tIn, int N, bool kKeep>
FACULA_DEVICE ExpState<typename Memory<tIn>::Compute> part_state(const SoftmaxArgs& args, const RowPart& part,
                                                                 Pack<typename Memory<tIn>::Bits, N>* kept) {
  using In = Memory<tIn>;
  using C = typename In::Compute;
  __shared__ ExpState<C> room[kMostRowGroups];
  const auto* from = static_cast<const typename In::Bits*>(args.in) + part.start;
  const ExpState<C> own = walk_first<In, N, kKeep>(from, part.length, kept, [](int64_t, const C(&)[N]) {});
  return team_all<true>(own, static_cast<int>(blockDim.x), room, MergeExpStates());
}

// One block a row.
template <DType tIn, DType tOut, int N, bool kLog, bool kKeep>
FACULA_DEVICE void softmax_long(const SoftmaxArgs& args) {
  using Kept = Pack<typename Memory<tIn>::Bits, N>;
  FACULA_DYNAMIC_SHARED(Kept, kept);
  const RowPart part = row_part(args);
  finish_part<tIn, tOut, N, kLog, kKeep>(args, part, part_state<tIn, N, kKeep>(args, part, kept), kept);
}
// Several blocks a row: first the states of all parts, then the results.
template <DType tIn, DType tOut, int N, bool kLog>
FACULA_DEVICE void softmax_states(const SoftmaxArgs& args) {
  using C = typename Memory<tOut>::Compute;
  const RowPart part = row_part(args);
  const ExpState<C> state = part_state<tIn, N, false>(args, part, nullptr);
  if (threadIdx.x == 0) static_cast<ExpState<C>*>(args.states)[part.row * args.chunks + blockIdx.y] = state;
}
template <DType tIn, DType tOut, int N, bool kLog>
FACULA_DEVICE void softmax_finish(const SoftmaxArgs& args) {
  using C = typename Memory<tOut>::Compute;
  const RowPart part = row_part(args);
  const ExpState<C>* states = static_cast<const ExpState<C>*>(args.states) + part.row * args.chunks;
  ExpState<C> all = states[0];
  FACULA_NO_UNROLL
  for (int k = 1; k < args.chunks; ++k) all = MergeExpStates()(all, states[k]);
  finish_part<tIn, tOut, N, kLog, false>(args, part, all, nullptr);
}

// ---- columns ------------------------------------------------------------------------------------------------------------------

// The threads of a block as columns, 1 << width_shift of them side by side, and shares of a column.
struct ColumnPlace {
  int64_t first;  // offset of the column's first element
  int share, shares, column, width;
  bool live;
};
FACULA_DEVICE ColumnPlace column_place(const SoftmaxArgs& args) {
  ColumnPlace place;
  const int thread = static_cast<int>(threadIdx.x);
  place.width = 1 << args.width_shift;
  place.column = thread & (place.width - 1);
  place.share = thread >> args.width_shift;
  place.shares = static_cast<int>(blockDim.x) >> args.width_shift;
  const int64_t number = static_cast<int64_t>(blockIdx.x) * place.width + place.column;
  place.live = number < args.rows;
  const int64_t outer = place.live ? number / args.inner : 0, inside = place.live ? number - outer * args.inner : 0;
  place.first = outer * args.n * args.inner + inside;
  return place;
}

template <DType tIn, DType tOut, bool kLog>
FACULA_DEVICE void softmax_columns(const SoftmaxArgs& args) {
  using In = Memory<tIn>;
  using Out = Memory<tOut>;
  using C = typename Out::Compute;
  FACULA_DYNAMIC_SHARED(ExpState<C>, room);  // one for each thread
  const ColumnPlace place = column_place(args);
  const typename In::Bits* from = static_cast<const typename In::Bits*>(args.in) + place.first;
  ExpState<C> state;
  state.reset();
  if (place.live) {
    FACULA_NO_UNROLL
    for (int64_t i = place.share; i < args.n; i += place.shares) {
      const C x[1] = {In::load(from[i * args.inner])};
      state.add(x);
    }
  }
  room[threadIdx.x] = state;
  block_barrier();
  FACULA_NO_UNROLL
  for (int half = place.shares / 2; half > 0; half /= 2) {
    if (place.share < half)
      room[threadIdx.x] = MergeExpStates()(room[threadIdx.x], room[static_cast<int>(threadIdx.x) + half * place.width]);
    block_barrier();
  }
  if (!place.live) return;
  state = room[place.column];
  const SoftmaxValue<kLog, C> value(state.top, state.sum);
  typename Out::Bits* to = static_cast<typename Out::Bits*>(args.out) + place.first;
  FACULA_NO_UNROLL
  for (int64_t i = place.share; i < args.n; i += place.shares)
    to[i * args.inner] = Out::store(value.of(In::load(from[i * args.inner])));
}

// ---- gradients ----------------------------------------------------------------------------------------------------------------
// With y the result: (g - sum of g y) y, or for the logarithm g - exp(y) times the sum of g.

template <bool kLog, class C>
FACULA_DEVICE C gradient_share(C g, C y) {
  if constexpr (kLog) return g;
  else return g * y;
}
template <bool kLog, class C>
FACULA_DEVICE C gradient_value(C g, C y, C sum) {
  if constexpr (kLog) return g - row_exp(y) * sum;
  else return (g - sum) * y;
}

template <DType t, int N, int K, bool kLog>
FACULA_DEVICE void softmax_backward_rows(const SoftmaxArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  __shared__ C room[kMostRowGroups];
  const RowPlace place = row_place(args.rows, args.width_shift);
  const int n = place.live ? static_cast<int>(args.n) : 0;
  const int64_t start = (place.live ? place.row : 0) * args.n;
  const typename M::Bits* grad = static_cast<const typename M::Bits*>(args.in) + start;
  const typename M::Bits* result = static_cast<const typename M::Bits*>(args.result) + start;
  const int before = elements_before<N>(grad);
  const auto at = [&](int k) { return (k * place.width + place.member) * N - before; };
  C g[K][N], y[K][N];
  read_row<M>(grad, at, n, C(0), g);
  read_row<M>(result, at, n, C(0), y);
  C sum = C(0);
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) sum += gradient_share<kLog>(g[k][e], y[k][e]);
  }
  sum = team_all<true>(sum, place.width, room, AddValues());
  if (!place.live) return;
  typename M::Bits* to = static_cast<typename M::Bits*>(args.out) + start;
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) g[k][e] = gradient_value<kLog>(g[k][e], y[k][e], sum);
    write_part<M>(to, at(k), n, g[k]);
  }
}

// One block a row, of any length.
template <DType t, int N, bool kLog>
FACULA_DEVICE void softmax_backward_long(const SoftmaxArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  __shared__ C room[kMostRowGroups];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * args.n;
  const typename M::Bits* grad = static_cast<const typename M::Bits*>(args.in) + start;
  const typename M::Bits* result = static_cast<const typename M::Bits*>(args.result) + start;
  typename M::Bits* to = static_cast<typename M::Bits*>(args.out) + start;
  C sum = C(0);
  walk_second<M, N, false>(grad, args.n, nullptr, [&](int64_t at, C(&g)[N]) {
    C y[N];
    if constexpr (!kLog) read_part<M>(result, at, args.n, C(0), y);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) sum += gradient_share<kLog>(g[e], kLog ? C(0) : y[e]);
  });
  sum = team_all<true>(sum, static_cast<int>(blockDim.x), room, AddValues());
  walk_second<M, N, false>(grad, args.n, nullptr, [&](int64_t at, C(&g)[N]) {
    C y[N];
    read_part<M>(result, at, args.n, C(0), y);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) g[e] = gradient_value<kLog>(g[e], y[e], sum);
    write_part<M>(to, at, args.n, g);
  });
}

template <DType t, bool kLog>
FACULA_DEVICE void softmax_backward_columns(const SoftmaxArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  FACULA_DYNAMIC_SHARED(C, room);  // one for each thread
  const ColumnPlace place = column_place(args);
  const typename M::Bits* grad = static_cast<const typename M::Bits*>(args.in) + place.first;
  const typename M::Bits* result = static_cast<const typename M::Bits*>(args.result) + place.first;
  C sum = C(0);
  if (place.live) {
    FACULA_NO_UNROLL
    for (int64_t i = place.share; i < args.n; i += place.shares)
      sum += gradient_share<kLog>(M::load(grad[i * args.inner]), M::load(result[i * args.inner]));
  }
  room[threadIdx.x] = sum;
  block_barrier();
  FACULA_NO_UNROLL
  for (int half = place.shares / 2; half > 0; half /= 2) {
    if (place.share < half) room[threadIdx.x] += room[static_cast<int>(threadIdx.x) + half * place.width];
    block_barrier();
  }
  if (!place.live) return;
  sum = room[place.column];
  typename M::Bits* to = static_cast<typename M::Bits*>(args.out) + place.first;
  FACULA_NO_UNROLL
  for (int64_t i = place.share; i < args.n; i += place.shares)
    to[i * args.inner] =
        M::store(gradient_value<kLog>(M::load(grad[i * args.inner]), M::load(result[i * args.inner]), sum));
}

}  // namespace facula
