// Losses over class numbers: nll_loss, and cross entropy of rows of logits with its gradient, in one pass over the logits.
#pragma once

#include "gpu/kernels/faults.h"
#include "gpu/kernels/rows.h"

namespace facula {

// Class numbers outside of [0, classes) that are not ignored.
struct LossFaults {
  FaculaFault* record;
  int64_t op;
  FACULA_DEVICE void report(int64_t label, int64_t classes) const {
    if (*static_cast<volatile unsigned int*>(&record->taken) == 0u)
      facula_report(record, kFaculaIndexOutOfRange, op, label, classes);
  }
};

// ---- nll_loss -----------------------------------------------------------------------------------------------------------------

// The order of members is what gpu/primitives/loss.cpp writes.
struct NllArgs {
  const void* in;
  const int64_t* target;
  const void* weight;  // of the input's dtype, or null
  void* out;           // a loss for each target, or null
  Two<double>* sums;   // of the blocks: losses and weights
  LossFaults faults;
  int64_t count;  // targets
  int64_t inner, classes, class_stride, batch_stride;
  int64_t ignored;
};
template <DType t>
FACULA_DEVICE void nll_entries(const NllArgs& args) {
  using M = Memory<t>;
  __shared__ Two<double> room[kMostRowGroups];
  const typename M::Bits* in = static_cast<const typename M::Bits*>(args.in);
  const typename M::Bits* weight = static_cast<const typename M::Bits*>(args.weight);
  Two<double> sums{0, 0};
  FACULA_NO_UNROLL
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t label = args.target[i];
    double loss = 0, share = 0;
    if (label != args.ignored) {
      if (label < 0 || label >= args.classes) {
        args.faults.report(label, args.classes);
      } else {
        const int64_t batch = i / args.inner, inside = i - batch * args.inner;
        share = weight ? static_cast<double>(M::load(weight[label])) : 1.0;
        loss =
            -share * static_cast<double>(M::load(in[batch * args.batch_stride + label * args.class_stride + inside]));
      }
    }
    if (args.out) static_cast<typename M::Bits*>(args.out)[i] = M::store(loss);
    sums.a += loss;
    sums.b += share;
  }
  if (!args.sums) return;
  sums = team_all(sums, static_cast<int>(blockDim.x), room, AddValues());
  if (threadIdx.x == 0) args.sums[blockIdx.x] = sums;
}

struct NllSumArgs {
  const Two<double>* sums;
  void* out;
  int64_t blocks;
  int32_t mean;
};
template <DType t>
FACULA_DEVICE void nll_sum(const NllSumArgs& args) {
  using M = Memory<t>;
  __shared__ Two<double> room[kMostRowGroups];
  Two<double> sums{0, 0};
  FACULA_NO_UNROLL
  for (int64_t i = threadIdx.x; i < args.blocks; i += blockDim.x) sums = AddValues()(sums, args.sums[i]);
  sums = team_all(sums, static_cast<int>(blockDim.x), room, AddValues());
  if (threadIdx.x == 0)
    static_cast<typename M::Bits*>(args.out)[0] = M::store(args.mean != 0 ? sums.a / sums.b : sums.a);
}

// ---- cross entropy ------------------------------------------------------------------------------------------------------------
// With s the smoothing, n classes, y the label and L the logarithm of the sum of exponentials, the loss of a row is
//   (1 - s) w[y] (L - x[y]) + s / n sum of w[c] (L - x[c]),
// its gradient (1 - s) w[y] (p[c] - [c = y]) + s / n (p[c] sum of w - w[c]) with p the softmax.

// The order of members is what gpu/primitives/loss.cpp writes. C is the compute type of the logits.
struct CrossEntropyArgs {
  const void* logits;  // [rows][n]
  const int64_t* target;
  const void* weight;  // [n] of C, or null: ones
  void* losses;        // [rows] of C
  void* shares;        // [rows] of C: w[y], or 0 where the label is ignored; or null
  void* log_sums;      // [rows] of C, or null
  const void* scale;   // of C: what the gradient of a row is multiplied with, or null
  const void* total;   // of C: what it is divided by, or null
  void* gradient;      // like the logits, or null
  LossFaults faults;
  int64_t rows, n;
  int64_t ignored;
  double smoothing;
  int64_t scale_step;  // 0: one for all rows
};

template <class C>
struct SmoothSums {
  C weights, weighted;  // sum of w, of w x
};
struct AddSmoothSums {
  static constexpr bool kCommutes = true;
  template <class C>
  FACULA_DEVICE SmoothSums<C> operator()(const SmoothSums<C>& a, const SmoothSums<C>& b) const {
    return {a.weights + b.weights, a.weighted + b.weighted};
  }
};

// The label of a row: bad ones are reported and ignored.
struct RowLabel {
  int64_t label;
  bool counts;
};
FACULA_DEVICE RowLabel row_label(const CrossEntropyArgs& args, int64_t row, bool report) {
  const int64_t label = args.target[row];
  if (label == args.ignored) return {0, false};
  if (label >= 0 && label < args.n) return {label, true};
  if (report) args.faults.report(label, args.n);
  return {0, false};
}

template <class M>
FACULA_DEVICE typename M::Compute row_scale(const CrossEntropyArgs& args, int64_t row) {
  using C = typename M::Compute;
  const C scale = args.scale ? static_cast<const C*>(args.scale)[row * args.scale_step] : C(1);
  return args.total ? scale / *static_cast<const C*>(args.total) : scale;
}

// The gradient of elements `at`, ... of a row.
template <class C, int N, class Index>
FACULA_DEVICE void entropy_gradient(const CrossEntropyArgs& args, Index at, Index n, const RowLabel& label, C log_sum,
                                    C own, C smooth, C weights, C scale, C (&x)[N]) {
  const C* w = static_cast<const C*>(args.weight);
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) {
    if (!label.counts) {
      x[e] = C(0);
      continue;
    }
    const C p = row_exp(x[e] - log_sum);
    C g = own * (p - (at + e == static_cast<Index>(label.label) ? C(1) : C(0)));
    if (smooth != C(0)) g += smooth * (p * weights - (w ? (at + e >= 0 && at + e < n ? w[at + e] : C(0)) : C(1)));
    x[e] = g * scale;
  }
}

// What a row says: from the sums of a block, which all of its threads know.
template <class M>
struct RowEntropy {
  using C = typename M::Compute;
  RowLabel label;
  C log_sum, own, smooth, weights;

  // `picked` is the logit of the label, which the first thread has.
  FACULA_DEVICE RowEntropy(const CrossEntropyArgs& args, int64_t row, const RowLabel& of, C picked,
                           const ExpState<C>& state, const SmoothSums<C>& smooth_sums)
      : label(of), log_sum(state.top + expr::m::log(state.sum)), weights(smooth_sums.weights) {
    const C* w = static_cast<const C*>(args.weight);
    const C share = !label.counts ? C(0) : w ? w[label.label] : C(1);
    smooth = static_cast<C>(args.smoothing / static_cast<double>(args.n));
    own = static_cast<C>(1.0 - args.smoothing) * share;
    if (threadIdx.x != 0) return;
    C loss = C(0);
    if (label.counts) {
      loss = own * (log_sum - picked);
      if (args.smoothing != 0) loss += smooth * (smooth_sums.weights * log_sum - smooth_sums.weighted);
    }
    static_cast<C*>(args.losses)[row] = loss;
    if (args.shares) static_cast<C*>(args.shares)[row] = share;
    if (args.log_sums) static_cast<C*>(args.log_sums)[row] = log_sum;
  }
  template <int N>
  FACULA_DEVICE void write_gradient(const CrossEntropyArgs& args, typename M::Bits* to, int64_t at, C scale,
                                    C (&x)[N]) const {
    entropy_gradient(args, at, args.n, label, log_sum, own, smooth, weights, scale, x);
    write_part<M>(to, at, args.n, x);
  }
};

template <class C, int N>
FACULA_DEVICE void add_smooth(const CrossEntropyArgs& args, int64_t at, const C (&x)[N], SmoothSums<C>& sums) {
  const C* w = static_cast<const C*>(args.weight);
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) {
    if (!is_part(at + e, args.n)) continue;
    const C share = w ? w[at + e] : C(1);
    sums.weights += share;
    sums.weighted += share * x[e];
  }
}

// A block a row, whose threads keep K packs each: the row is read once, also where its gradient is written.
template <DType t, int N, int K>
FACULA_DEVICE void cross_entropy(const CrossEntropyArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  __shared__ C tops[kMostRowGroups], sums[kMostRowGroups];
  __shared__ SmoothSums<C> smooth_room[kMostRowGroups];
  const int64_t row = blockIdx.x, n = args.n;
  const int threads = static_cast<int>(blockDim.x);
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.logits) + row * n;
  const int64_t first = static_cast<int64_t>(threadIdx.x) * N - elements_before<N>(from);
  const int64_t step = static_cast<int64_t>(threads) * N;
  Pack<typename M::Bits, N> kept[K];
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) read_bits<M>(from, first + k * step, n, M::store(lowest_value<C>()), kept[k]);
  // Read before anything is written: the gradient may take the logits' place.
  const RowLabel label = row_label(args, row, threadIdx.x == 0);
  const C picked = threadIdx.x == 0 && label.counts ? M::load(from[label.label]) : C(0);
  const auto over = [&](auto f) {
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      C x[N];
      unpack<M>(kept[k], x);
      f(first + k * step, x);
    }
  };
  ExpState<C> state;
  state.reset();
  over([&](int64_t, C(&x)[N]) {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) state.top = larger(state.top, x[e]);
  });
  state.top = team_all<true>(state.top, threads, tops, LargerValue());
  SmoothSums<C> smooth_sums{C(0), C(0)};
  over([&](int64_t at, C(&x)[N]) {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) state.sum += row_exp(x[e] - state.top);
    if (args.smoothing != 0) add_smooth(args, at, x, smooth_sums);
  });
  state.sum = team_all<true>(state.sum, threads, sums, AddValues());
  if (args.smoothing != 0) smooth_sums = team_all(smooth_sums, threads, smooth_room, AddSmoothSums());
  const RowEntropy<M> entropy(args, row, label, picked, state, smooth_sums);
  if (!args.gradient) return;
  if (threads <= kRowLanes) block_barrier();  // the logit of the label was read; larger teams have met
  typename M::Bits* to = static_cast<typename M::Bits*>(args.gradient) + row * n;
  const C scale = row_scale<M>(args, row);
  over([&](int64_t at, C(&x)[N]) { entropy.write_gradient(args, to, at, scale, x); });
}

// Rows of any length, walked once for the loss and once more for the gradient; what was read may be kept in shared memory until then.
template <DType t, int N, bool kKeep>
FACULA_DEVICE void cross_entropy_long(const CrossEntropyArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  using Kept = Pack<typename M::Bits, N>;
  FACULA_DYNAMIC_SHARED(Kept, kept);
  __shared__ ExpState<C> room[kMostRowGroups];
  __shared__ SmoothSums<C> smooth_room[kMostRowGroups];
  const int64_t row = blockIdx.x, n = args.n;
  const int threads = static_cast<int>(blockDim.x);
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.logits) + row * n;
  const RowLabel label = row_label(args, row, threadIdx.x == 0);
  const C picked = threadIdx.x == 0 && label.counts ? M::load(from[label.label]) : C(0);
  SmoothSums<C> smooth_sums{C(0), C(0)};
  const ExpState<C> own = walk_first<M, N, kKeep>(from, n, kept, [&](int64_t at, const C(&x)[N]) {
    if (args.smoothing != 0) add_smooth(args, at, x, smooth_sums);
  });
  const ExpState<C> state = team_all<true>(own, threads, room, MergeExpStates());
  if (args.smoothing != 0) smooth_sums = team_all<true>(smooth_sums, threads, smooth_room, AddSmoothSums());
  const RowEntropy<M> entropy(args, row, label, picked, state, smooth_sums);
  if (!args.gradient) return;
  typename M::Bits* to = static_cast<typename M::Bits*>(args.gradient) + row * n;
  const C scale = row_scale<M>(args, row);
  walk_second<M, N, kKeep>(from, n, kept,
                           [&](int64_t at, C(&x)[N]) { entropy.write_gradient(args, to, at, scale, x); });
}

// The sum of the weights of all labels, which is known before any logit is read. One block.
template <class C>
FACULA_DEVICE void cross_entropy_total(const CrossEntropyArgs& args) {
  __shared__ double room[kMostRowGroups];
  const C* w = static_cast<const C*>(args.weight);
  double sum = 0;
  FACULA_NO_UNROLL
  for (int64_t row = threadIdx.x; row < args.rows; row += blockDim.x) {
    const RowLabel label = row_label(args, row, false);
    if (label.counts) sum += w ? static_cast<double>(w[label.label]) : 1.0;
  }
  sum = team_all(sum, static_cast<int>(blockDim.x), room, AddValues());
  if (threadIdx.x == 0) *static_cast<C*>(args.shares) = static_cast<C>(sum);
}

// What becomes of the losses of rows: their sum or mean, or themselves, and the sum of their shares. One block.
struct EntropySumArgs {
  const void* losses;  // of C
  const void* shares;  // of C, or null: the total is there already
  void* out;           // of the loss's dtype
  void* total;         // of C
  int64_t rows;
  int32_t reduction;  // 0: none, 1: mean, 2: sum
};
template <DType t>
FACULA_DEVICE void cross_entropy_sum(const EntropySumArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  __shared__ Two<double> room[kMostRowGroups];
  const C* losses = static_cast<const C*>(args.losses);
  const C* shares = static_cast<const C*>(args.shares);
  typename M::Bits* out = static_cast<typename M::Bits*>(args.out);
  Two<double> sums{0, 0};
  FACULA_NO_UNROLL
  for (int64_t i = threadIdx.x; i < args.rows; i += blockDim.x) {
    if (args.reduction == 0) out[i] = M::store(losses[i]);
    sums.a += static_cast<double>(losses[i]);
    if (shares) sums.b += static_cast<double>(shares[i]);
  }
  sums = team_all(sums, static_cast<int>(blockDim.x), room, AddValues());
  if (threadIdx.x != 0) return;
  if (shares) *static_cast<C*>(args.total) = static_cast<C>(sums.b);
  else sums.b = static_cast<double>(*static_cast<const C*>(args.total));
  if (args.reduction != 0) out[0] = M::store(args.reduction == 1 ? sums.a / sums.b : sums.a);
}

// Multiplies all elements by a number that only the GPU knows; where it is one, as it is most of the time, nothing is
// touched.
struct UnlessOneArgs {
  void* data;
  const void* by;
  int64_t count;
};
template <DType t, DType b, int N>
FACULA_DEVICE void multiply_unless_one(const UnlessOneArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  const C by = static_cast<C>(Memory<b>::load(*static_cast<const typename Memory<b>::Bits*>(args.by)));
  if (by == C(1)) return;
  typename M::Bits* data = static_cast<typename M::Bits*>(args.data);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * N;
  FACULA_NO_UNROLL
  for (int64_t at = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N - elements_before<N>(data);
       at < args.count; at += step) {
    C x[N];
    read_part<M>(data, at, args.count, C(0), x);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) x[e] *= by;
    write_part<M>(data, at, args.count, x);
  }
}

// The gradient alone, from the logarithms that were found before.
template <DType t, int N>
FACULA_DEVICE void cross_entropy_backward(const CrossEntropyArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  __shared__ C room[kMostRowGroups];
  const int64_t row = blockIdx.x, n = args.n;
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.logits) + row * n;
  typename M::Bits* to = static_cast<typename M::Bits*>(args.gradient) + row * n;
  const C* w = static_cast<const C*>(args.weight);
  const int before = elements_before<N>(from);
  const RowLabel label = row_label(args, row, false);
  const C smooth = static_cast<C>(args.smoothing / static_cast<double>(n));
  const C own = static_cast<C>(1.0 - args.smoothing) * (!label.counts ? C(0) : w ? w[label.label] : C(1));
  const C scale = row_scale<M>(args, row);
  const C log_sum = static_cast<const C*>(args.log_sums)[row];
  C weights = static_cast<C>(n);
  if (w && args.smoothing != 0) {
    C sum = C(0);
    FACULA_NO_UNROLL
    for (int64_t c = threadIdx.x; c < n; c += blockDim.x) sum += w[c];
    weights = team_all(sum, static_cast<int>(blockDim.x), room, AddValues());
  }
  FACULA_NO_UNROLL
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * N - before; at < n;
       at += static_cast<int64_t>(blockDim.x) * N) {
    C x[N];
    read_part<M>(from, at, n, C(0), x);
    entropy_gradient(args, at, n, label, log_sum, own, smooth, weights, scale, x);
    write_part<M>(to, at, n, x);
  }
}

}  // namespace facula
