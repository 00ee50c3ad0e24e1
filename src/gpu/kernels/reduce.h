// Programs with a reduction. The kept dims are walked by outputs, the reduced ones by elements of an output; dims are numbered from
// the innermost, strides are in elements. Every result comes from a tree that follows from the geometry alone.
//
//   struct L {
//     static constexpr int kKept = 1, kReduced = 1;      // dims
//     static constexpr int kVector = 4, kUnroll = 4;     // elements of a pack; packs that are loaded before any is used
//     static constexpr bool kEdges = false;              // rows: whether a pack may reach over an end of dim 0
//     static constexpr bool kPartial = false;            // leaves states for `reduce_merge` instead of results
//     using Index = int32_t;
//     static constexpr Access kAccess[] = {...};         // of the loads along the dim that packs run along
//     static constexpr Access kStoreAccess[] = {...};    // of the stores along kept dim 0: Next allows packs
//   };
#pragma once

#include "gpu/kernels/layout.h"
#include "gpu/kernels/reduce_states.h"

namespace facula {

template <class P, class L>
using StateOf = typename StateFor<P::kReduce, typename P::Reduced, typename L::Index>::type;

// ---- arguments: the order of members is what gpu/program/program_reduce.cpp writes ----------------------------------------------------

// What all kernels have. An array of no elements does not exist.
template <class P, class L>
struct ReduceArgs {
  const void* loads[P::kLoads];
  void* stores[P::kStores];
  void* states;  // of partial results
  Faults faults;
  typename L::Index outputs;
  int32_t width_shift;  // log2 of the threads of a team (rows), of those along outputs (columns, merge)
  // Sizes of dims 0, 1, ... but not of the last one, which needs no division. Columns: dim 0 in packs.
  alignas(8) Divider<typename L::Index> kept_sizes[L::kKept > 1 ? L::kKept - 1 : 1];
  Divider<typename L::Index> reduced_sizes[L::kReduced > 1 ? L::kReduced - 1 : 1];
  typename L::Index kept_strides[P::kLoads + P::kStores][L::kKept];
  typename L::Index reduced_strides[P::kLoads + 1][L::kReduced];  // of the loads, then of positions
  typename L::Index size0;                                        // rows: elements of reduced dim 0
  typename L::Index steps;  // packs (rows) or elements (columns) of an output, states of an output (merge)
  typename L::Index chunk;  // of them that a block takes
  int32_t
      misalignment;  // rows: elements from an address that packs may have to that of the first load that has neighbours
  alignas(8) typename P::Params params;
};

// Coordinates from a number; the last dim takes what is left.
template <int kDims, class Index>
FACULA_DEVICE void find_place(Index number, const Divider<Index>* sizes, Index (&at)[kDims]) {
  FACULA_UNROLL
  for (int d = 0; d + 1 < kDims; ++d) at[d] = divide(number, sizes[d]);
  at[kDims - 1] = number;
}
template <int kDims, class Index>
FACULA_DEVICE Index offset_of(const Index (&at)[kDims], const Index (&strides)[kDims]) {
  Index sum = 0;
  FACULA_UNROLL
  for (int d = 0; d < kDims; ++d) sum += at[d] * strides[d];
  return sum;
}

// ---- elements -----------------------------------------------------------------------------------------------------------------

template <class L, int N>
struct ReduceLoadSizes {
  static FACULA_DEVICE constexpr int of(int k) { return L::kAccess[k] == Access::Constant ? 1 : N; }
};

// N neighbours of every load along the dim of packs, and the values that a program makes of them.
template <class P, class L, int N>
struct ReduceLoads {
  Packs<P, LoadMemory, ReduceLoadSizes<L, N>, 0, P::kLoads> packs;

  // offset(Int<k>()) is that of the first element of load k, stride(Int<k>()) its stride along the pack.
  template <class Offset, class Stride>
  FACULA_DEVICE void read(const void* const* loads, Offset offset, Stride stride) {
    for_each_index<P::kLoads>([&](auto index) {
      constexpr int k = decltype(index)::value;
      using Bits = typename LoadMemory<P, k>::type::Bits;
      const Bits* from = static_cast<const Bits*>(loads[k]) + offset(index);
      auto& pack = packs.template get<k>();
      if constexpr (L::kAccess[k] == Access::Apart && N > 1) {
        FACULA_UNROLL
        for (int e = 0; e < N; ++e) pack.at[e] = from[e * stride(index)];
      } else {
        pack.read(from);
      }
    });
  }
  struct Element {
    const ReduceLoads& loaded;
    int e;
    template <int k>
    FACULA_DEVICE auto load() const {
      return LoadMemory<P, k>::type::load(loaded.packs.template get<k>().at[L::kAccess[k] == Access::Constant ? 0 : e]);
    }
  };
  FACULA_DEVICE typename P::Reduced value(int e, const ReduceArgs<P, L>& args) const {
    return P::prologue(Element{*this, e}, args.params, args.faults);
  }
};

// ---- results ------------------------------------------------------------------------------------------------------------------

// Writes the results of N neighbouring outputs along kept dim 0, the first of which stands at `at`.
template <class P, class L, int N>
FACULA_DEVICE void store_results(const ReduceArgs<P, L>& args, const typename L::Index (&at)[L::kKept],
                                 const StateOf<P, L> (&states)[N]) {
  StorePacks<P, N> results;
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) {
    StoreElement<P, N> out{results, e};
    P::epilogue(static_cast<typename P::First>(states[e].first()), static_cast<typename P::Second>(states[e].second()),
                args.params, args.faults, out);
  }
  for_each_index<P::kStores>([&](auto index) {
    constexpr int k = decltype(index)::value;
    using Bits = typename StoreMemory<P, k>::type::Bits;
    Bits* to = static_cast<Bits*>(args.stores[k]) + offset_of(at, args.kept_strides[P::kLoads + k]);
    const auto& pack = results.template get<k>();
    if constexpr (N > 1 && L::kStoreAccess[k] != Access::Next) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) to[e * args.kept_strides[P::kLoads + k][0]] = pack.at[e];
    } else {
      pack.write(to);
    }
  });
}

// ---- merging over threads -----------------------------------------------------------------------------------------------------

inline constexpr int kReduceLanes = 32;  // threads that merge by shuffles, whatever the width of a warp is

// Merges the states of each team of `width` threads (a power of two) into that of its first thread. All threads of the block take
// part; `room` has a place for every kReduceLanes threads.
template <class State>
FACULA_DEVICE void merge_team(State& state, int width, State* room) {
  const int thread = static_cast<int>(threadIdx.x);
  FACULA_NO_UNROLL
  for (int distance = (width < kReduceLanes ? width : kReduceLanes) / 2; distance > 0; distance /= 2)
    state.merge(lane_down(state, distance));
  if (width <= kReduceLanes) return;
  const int lane = thread & (kReduceLanes - 1), groups = width / kReduceLanes;
  if (lane == 0) room[thread / kReduceLanes] = state;
  block_barrier();
  const int in_team = thread & (width - 1);
  if (in_team < kReduceLanes) {
    // Groups of one team are neighbours; lanes beyond them have nothing to add.
    if (lane < groups) state = room[thread / kReduceLanes + lane];
    else state.reset();
  }
  FACULA_NO_UNROLL
  for (int distance = groups / 2; distance > 0; distance /= 2) state.merge(lane_down(state, distance));
}

// Merges N states of each thread over the threads of the block with equal (thread & (1 << width_shift) - 1), into those of the first.
// `room` has a place for the states of three quarters of the block: those of one round lie beside those of the next, so that each needs one
// barrier.
template <class State, int N>
FACULA_DEVICE void merge_columns(State (&states)[N], int width_shift, State* room) {
  const int thread = static_cast<int>(threadIdx.x), width = 1 << width_shift;
  State *here = room, *beside = room + N * (static_cast<int>(blockDim.x) / 2);
  FACULA_NO_UNROLL
  for (int half = static_cast<int>(blockDim.x) / 2; half >= width; half /= 2) {
    // Element by element over the block: neighbours in a bank each.
    if (thread >= half && thread < 2 * half) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) here[e * half + thread - half] = states[e];
    }
    block_barrier();
    if (thread < half) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) states[e].merge(here[e * half + thread]);
    }
    State* const next = beside;
    beside = here;
    here = next;
  }
}

// ---- rows: packs run along reduced dim 0, a team of threads takes an output ---------------------------------------------------

// One pack of an output: where its elements stand.
template <class P, class L>
struct RowPlace {
  typename L::Index at[L::kReduced];  // of the first element; dim 0 may lie outside where packs have edges
  typename L::Index position;

  template <class Kept>
  FACULA_DEVICE void find(const ReduceArgs<P, L>& args, const Kept& kept, typename L::Index pack) {
    find_place<L::kReduced>(pack, args.reduced_sizes, at);
    at[0] *= L::kVector;
    if constexpr (L::kEdges) {
      typename L::Index before = args.misalignment + kept[L::kAligning];
      FACULA_UNROLL
      for (int d = 1; d < L::kReduced; ++d) before += at[d] * args.reduced_strides[L::kAligning][d];
      at[0] -= before & (L::kVector - 1);
    }
    if constexpr (StateOf<P, L>::kOrdered) position = offset_of(at, args.reduced_strides[P::kLoads]);
    else position = 0;
  }
  FACULA_DEVICE bool whole(const ReduceArgs<P, L>& args) const {
    if constexpr (L::kEdges) return at[0] >= 0 && at[0] + L::kVector <= args.size0;
    else return true;
  }
  template <int k>
  FACULA_DEVICE typename L::Index offset(const ReduceArgs<P, L>& args) const {
    typename L::Index sum = 0;
    if constexpr (L::kAccess[k] == Access::Next) sum = at[0];
    if constexpr (L::kAccess[k] == Access::Apart) sum = at[0] * args.reduced_strides[k][0];
    FACULA_UNROLL
    for (int d = 1; d < L::kReduced; ++d) sum += at[d] * args.reduced_strides[k][d];
    return sum;
  }
};

template <class P, class L>
struct RowReader {
  using Index = typename L::Index;
  using State = StateOf<P, L>;
  using Value = typename P::Reduced;
  static constexpr int V = L::kVector, U = L::kUnroll;
  using Place = RowPlace<P, L>;

  const ReduceArgs<P, L>& args;
  Index kept[P::kLoads];  // offsets of the output
  State state;

  template <int N>
  FACULA_DEVICE void read(ReduceLoads<P, L, N>& loaded, const Place& place, Index moved) {
    loaded.read(
        args.loads,
        [&](auto index) {
          constexpr int k = decltype(index)::value;
          const Index along = L::kAccess[k] == Access::Constant ? Index(0)
                              : L::kAccess[k] == Access::Next   ? moved
                                                                : moved * args.reduced_strides[k][0];
          return kept[k] + place.template offset<k>(args) + along;
        },
        [&](auto index) { return args.reduced_strides[decltype(index)::value][0]; });
  }
  FACULA_DEVICE Index step() const { return args.reduced_strides[P::kLoads][0]; }

  // Packs that are all whole.
  FACULA_DEVICE void add_all(const Place (&places)[U]) {
    ReduceLoads<P, L, V> loaded[U];
    FACULA_UNROLL
    for (int u = 0; u < U; ++u) read(loaded[u], places[u], Index(0));
    Value x[U * V];
    Index positions[U];
    FACULA_UNROLL
    for (int u = 0; u < U; ++u) {
      FACULA_UNROLL
      for (int e = 0; e < V; ++e) x[u * V + e] = loaded[u].value(e, args);
      positions[u] = places[u].position;
    }
    state.template add<V>(x, positions, step());
  }
  // Packs `pack`, `pack + width`, ... below `end`.
  FACULA_DEVICE void add_some(Index pack, Index width, Index end, Place (&places)[U]) {
    ReduceLoads<P, L, V> loaded[U];
    bool whole[U];
    FACULA_UNROLL
    for (int u = 0; u < U; ++u) {
      whole[u] = pack + u * width < end && places[u].whole(args);
      if (whole[u]) read(loaded[u], places[u], Index(0));
    }
    FACULA_UNROLL
    for (int u = 0; u < U; ++u) {
      if (whole[u]) {
        Value x[V];
        FACULA_UNROLL
        for (int e = 0; e < V; ++e) x[e] = loaded[u].value(e, args);
        const Index positions[1] = {places[u].position};
        state.template add<V>(x, positions, step());
      } else if constexpr (L::kEdges) {
        if (pack + u * width < end) add_edge(places[u]);
      }
    }
  }
  FACULA_DEVICE void add_edge(const Place& place) {
    const Index begin = place.at[0] < 0 ? -place.at[0] : Index(0);
    const Index left = args.size0 - place.at[0], end = left < V ? left : Index(V);
    FACULA_NO_UNROLL
    for (Index e = begin; e < end; ++e) {
      ReduceLoads<P, L, 1> loaded;
      read(loaded, place, e);
      const Value x[1] = {loaded.value(0, args)};
      const Index positions[1] = {place.position + e * step()};
      state.template add<1>(x, positions, step());
    }
  }
};

template <class P, class L>
FACULA_DEVICE void reduce_rows(const ReduceArgs<P, L>& args) {
  using Index = typename L::Index;
  using State = StateOf<P, L>;
  constexpr int U = L::kUnroll;
  FACULA_DYNAMIC_SHARED(State, room);
  const int thread = static_cast<int>(threadIdx.x), width = 1 << args.width_shift;
  const Index output = static_cast<Index>(blockIdx.x) * (static_cast<Index>(blockDim.x) >> args.width_shift) +
                       (thread >> args.width_shift);
  const bool live = output < args.outputs;
  Index at[L::kKept];
  find_place<L::kKept>(live ? output : Index(0), args.kept_sizes, at);
  RowReader<P, L> reader{args};
  FACULA_UNROLL
  for (int k = 0; k < P::kLoads; ++k) reader.kept[k] = offset_of(at, args.kept_strides[k]);
  reader.state.reset();
  if (live) {
    const Index begin = static_cast<Index>(blockIdx.y) * args.chunk;
    const Index end = begin + args.chunk < args.steps ? begin + args.chunk : args.steps;
    FACULA_NO_UNROLL
    for (Index group = begin; group < end; group += width * U) {
      const Index pack = group + (thread & (width - 1));
      RowPlace<P, L> places[U];
      bool all = group + width * U <= end;
      FACULA_UNROLL
      for (int u = 0; u < U; ++u) {
        places[u].find(args, reader.kept, pack + u * width);
        if constexpr (L::kEdges) all = all && places[u].whole(args);
      }
      if (all) reader.add_all(places);
      else reader.add_some(pack, width, end, places);
    }
  }
  merge_team(reader.state, width, room);
  if (!live || (thread & (width - 1)) != 0) return;
  if constexpr (L::kPartial) {
    static_cast<State*>(args.states)[static_cast<int64_t>(blockIdx.y) * args.outputs + output] = reader.state;
  } else {
    State states[1] = {reader.state};
    if (args.steps == 0) set_nothing(states[0]);
    store_results(args, at, states);
  }
}

// ---- columns: packs run along kept dim 0, threads with one and the same pack share its elements -------------------------------

template <class P, class L, int U>
FACULA_DEVICE void add_column_rows(const ReduceArgs<P, L>& args, const typename L::Index (&kept)[P::kLoads],
                                   typename L::Index first, typename L::Index distance,
                                   StateOf<P, L> (&states)[L::kVector]) {
  using Index = typename L::Index;
  constexpr int V = L::kVector;
  ReduceLoads<P, L, V> loaded[U];
  Index positions[U];
  FACULA_UNROLL
  for (int u = 0; u < U; ++u) {
    Index at[L::kReduced];
    find_place<L::kReduced>(first + u * distance, args.reduced_sizes, at);
    loaded[u].read(
        args.loads,
        [&](auto index) {
          constexpr int k = decltype(index)::value;
          return kept[k] + offset_of(at, args.reduced_strides[k]);
        },
        [&](auto index) { return args.kept_strides[decltype(index)::value][0]; });
    if constexpr (StateOf<P, L>::kOrdered) positions[u] = offset_of(at, args.reduced_strides[P::kLoads]);
    else positions[u] = 0;
  }
  FACULA_UNROLL
  for (int e = 0; e < V; ++e) {
    typename P::Reduced x[U];
    FACULA_UNROLL
    for (int u = 0; u < U; ++u) x[u] = loaded[u].value(e, args);
    states[e].template add<1>(x, positions, Index(0));
  }
}

template <class P, class L>
FACULA_DEVICE void reduce_columns(const ReduceArgs<P, L>& args) {
  using Index = typename L::Index;
  using State = StateOf<P, L>;
  constexpr int V = L::kVector, U = L::kUnroll;
  FACULA_DYNAMIC_SHARED(State, room);
  const int thread = static_cast<int>(threadIdx.x), width = 1 << args.width_shift;
  const Index rows = static_cast<Index>(blockDim.x) >> args.width_shift;
  const Index pack = static_cast<Index>(blockIdx.x) * width + (thread & (width - 1));
  const bool live = pack < args.outputs / V;
  Index at[L::kKept];
  find_place<L::kKept>(live ? pack : Index(0), args.kept_sizes, at);
  at[0] *= V;
  State states[V];
  FACULA_UNROLL
  for (int e = 0; e < V; ++e) states[e].reset();
  if (live) {
    Index kept[P::kLoads];
    FACULA_UNROLL
    for (int k = 0; k < P::kLoads; ++k) kept[k] = offset_of(at, args.kept_strides[k]);
    const Index begin = static_cast<Index>(blockIdx.y) * args.chunk;
    const Index end = begin + args.chunk < args.steps ? begin + args.chunk : args.steps;
    Index row = begin + (thread >> args.width_shift);
    FACULA_NO_UNROLL
    for (; row + (U - 1) * rows < end; row += U * rows) add_column_rows<P, L, U>(args, kept, row, rows, states);
    if constexpr (U > 1) {
      FACULA_NO_UNROLL
      for (; row < end; row += rows) add_column_rows<P, L, 1>(args, kept, row, rows, states);
    }
  }
  merge_columns(states, args.width_shift, room);
  if (!live || thread >= width) return;
  if constexpr (L::kPartial) {
    State* out = static_cast<State*>(args.states) + static_cast<int64_t>(blockIdx.y) * args.outputs + pack * V;
    FACULA_UNROLL
    for (int e = 0; e < V; ++e) out[e] = states[e];
  } else {
    store_results(args, at, states);
  }
}

// ---- merge: the states that a first pass left ---------------------------------------------------------------------------------

template <class P, class L>
FACULA_DEVICE void reduce_merge(const ReduceArgs<P, L>& args) {
  using Index = typename L::Index;
  using State = StateOf<P, L>;
  FACULA_DYNAMIC_SHARED(State, room);
  const int thread = static_cast<int>(threadIdx.x), width = 1 << args.width_shift;
  const Index rows = static_cast<Index>(blockDim.x) >> args.width_shift;
  const Index output = static_cast<Index>(blockIdx.x) * width + (thread & (width - 1));
  const bool live = output < args.outputs;
  State states[1];
  states[0].reset();
  if (live) {
    const State* from = static_cast<const State*>(args.states) + output;
    constexpr int kTogether = 4;  // loads that wait for each other no longer than for memory
    FACULA_NO_UNROLL
    for (Index row = thread >> args.width_shift; row < args.steps; row += kTogether * rows) {
      State parts[kTogether];
      FACULA_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        if (row + k * rows < args.steps) parts[k] = from[static_cast<int64_t>(row + k * rows) * args.outputs];
        else parts[k].reset();
      }
      FACULA_UNROLL
      for (int k = 0; k < kTogether; ++k) states[0].merge(parts[k]);
    }
  }
  merge_columns(states, args.width_shift, room);
  if (!live || thread >= width) return;
  Index at[L::kKept];
  find_place<L::kKept>(output, args.kept_sizes, at);
  store_results(args, at, states);
}

}  // namespace facula
