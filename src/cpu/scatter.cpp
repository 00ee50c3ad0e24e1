// CPU kernels of gather and scatter: one index per entry, along one dimension. Index terms for whole slices live in
// index.cpp.
#include "cpu/index.h"

#include "core/dispatch.h"
#include "core/kernel_table.h"
#include "cpu/accumulate.h"
#include "cpu/parallel.h"
#include "cpu/simd/gather_ops.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace facula {
namespace {

using namespace detail;

constexpr int64_t kGrain = 16384;
constexpr int64_t kFarBytes = 1 << 20;  // from here on self counts as larger than the caches
constexpr int64_t kStretch = 1024;      // indices that are checked at a time before they are used

// Every position of the index as one walk; along the dim self stays where it is, for the index says where to go.
WalkDims all_positions(const GatherWalk& w, int key) {
  WalkDims all = w.rest;
  if (all.n == 1 && all.dims[0].size == 1) all.n = 0;
  all.add(w.length, 0, w.other_step, w.index_step);
  all.normalise(key);
  return all;
}

[[noreturn]] void raise_first_bad(const GatherWalk& w) {
  const WalkDims all = all_positions(w, 2);
  const int64_t step = all.last().stride[2];
  for_runs(all, 0, all.numel(), [&](const int64_t* offset, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t v = w.index[offset[2] + j * step];
      if (static_cast<uint64_t>(v) >= static_cast<uint64_t>(w.size)) raise_out_of_range(w.error, v, w.size, false);
    }
  });
  FACULA_INTERNAL_CHECK(false);
  std::abort();
}

// Whether n indices lie in [0, size). Index and distance to the end are both non-negative exactly then, which needs no
// branches.
bool all_in_range(const int64_t* index, int64_t step, int64_t n, int64_t size) {
  uint64_t bad = 0;
  const uint64_t last = static_cast<uint64_t>(size) - 1;
  if (step == 1) {
    for (int64_t j = 0; j < n; ++j) bad |= static_cast<uint64_t>(index[j]) | (last - static_cast<uint64_t>(index[j]));
  } else {
    for (int64_t j = 0; j < n; ++j)
      bad |= static_cast<uint64_t>(index[j * step]) | (last - static_cast<uint64_t>(index[j * step]));
  }
  return (bad >> 63) == 0;
}

// False when an index is out of range.
template <class T>
bool gather_run(const T* self, int64_t self_step, T* other, int64_t other_step, const int64_t* index,
                int64_t index_step, int64_t stride, int64_t size, int64_t n) {
  if (index_step == 0) {
    if (!all_in_range(index, 0, 1, size)) return false;
    const T* from = self + *index * stride;
    if (self_step == 1 && other_step == 1) std::memcpy(other, from, static_cast<size_t>(n) * sizeof(T));
    else
      for (int64_t j = 0; j < n; ++j) other[j * other_step] = from[j * self_step];
    return true;
  }
  if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>)
    if (other_step == 1 && index_step == 1 && self_step == 0 && stride == 1)
      return gather_elements(self, index, other, n, size);
  // Checked a stretch ahead, while the indices are in the cache.
  for (int64_t done = 0; done < n; done += kStretch) {
    const int64_t m = std::min(kStretch, n - done);
    if (!all_in_range(index, index_step, m, size)) return false;
    if (other_step == 1 && index_step == 1 && self_step == 0 && stride == 1) {
      for (int64_t j = 0; j < m; ++j) other[j] = self[index[j]];
    } else if (other_step == 1 && index_step == 1) {
      for (int64_t j = 0; j < m; ++j) other[j] = self[j * self_step + index[j] * stride];
    } else {
      for (int64_t j = 0; j < m; ++j) other[j * other_step] = self[j * self_step + index[j * index_step] * stride];
    }
    self += m * self_step;
    other += m * other_step;
    index += m * index_step;
  }
  return true;
}

// Reads each index once, however often an expanded one repeats it.
void check_indices(const GatherWalk& w) {
  WalkDims once;
  for (int i = 0; i < w.rest.n; ++i)
    if (w.rest.dims[i].stride[2] != 0) once.add(w.rest.dims[i].size, 0, 0, w.rest.dims[i].stride[2]);
  if (w.index_step != 0) once.add(w.length, 0, 0, w.index_step);
  once.normalise(2);
  const int64_t step = once.last().stride[2];
  std::atomic<bool> ok{true};
  parallel_for(0, once.numel(), 4 * kGrain, [&](int64_t begin, int64_t end) {
    bool good = true;
    for_runs(once, begin, end,
             [&](const int64_t* offset, int64_t n) { good &= all_in_range(w.index + offset[2], step, n, w.size); });
    if (!good) ok.store(false, std::memory_order_relaxed);
  });
  if (!ok.load()) raise_first_bad(w);
}

// All indices along the dim, for a run of the innermost rest dim.
struct Piece {
  char* self;
  char* other;
  const int64_t* index;
  int64_t run;
};
using PieceFn = void (*)(const GatherWalk&, const Piece&);

// The other way round: from self.
struct Fetch {
  template <class T>
  static void apply(const T& a, T& b) {
    b = a;
  }
};

template <class T, class Op>
void visit_piece(const GatherWalk& w, const Piece& p) {
  const int64_t self_stride = w.rest.last().stride[0], other_stride = w.rest.last().stride[1],
                index_stride = w.rest.last().stride[2];
  T* self = reinterpret_cast<T*>(p.self);
  T* other = reinterpret_cast<T*>(p.other);
  if (p.run == 1 || w.stride < self_stride) {
    for (int64_t r = 0; r < p.run; ++r) {
      T* at = self + r * self_stride;
      T* from = other + r * other_stride;
      const int64_t* index = p.index + r * index_stride;
      if (w.index_step == 1 && w.other_step == 1 && w.stride == 1) {
        for (int64_t d = 0; d < w.length; ++d) Op::apply(at[index[d]], from[d]);
      } else {
        for (int64_t d = 0; d < w.length; ++d)
          Op::apply(at[index[d * w.index_step] * w.stride], from[d * w.other_step]);
      }
    }
    return;
  }
  if (index_stride == 0) {
    if constexpr (!std::is_same_v<Op, Fetch>) {
      for (int64_t d = 0; d < w.length; ++d)
        fold_row<T, Op>(self + p.index[d * w.index_step] * w.stride, self_stride, other + d * w.other_step,
                        other_stride, p.run);
      return;
    }
  }
  // Where every index leads to another row of a large self, a few columns at a time keep their part of it in the cache.
  const bool far = w.size * w.stride * static_cast<int64_t>(sizeof(T)) >= kFarBytes;
  const int64_t columns = far ? std::max<int64_t>(8, 128 / static_cast<int64_t>(sizeof(T))) : p.run;
  for (int64_t first = 0; first < p.run; first += columns) {
    const int64_t last = std::min(first + columns, p.run);
    for (int64_t d = 0; d < w.length; ++d) {
      T* from = other + d * w.other_step;
      const int64_t* index = p.index + d * w.index_step;
      for (int64_t r = first; r < last; ++r)
        Op::apply(self[index[r * index_stride] * w.stride + r * self_stride], from[r * other_stride]);
    }
  }
}

void visit_all(const GatherWalk& w, size_t element_size, PieceFn piece) {
  const int64_t elem = static_cast<int64_t>(element_size);
  parallel_for(0, w.rest.numel(), std::max<int64_t>(1, kGrain / w.length), [&](int64_t begin, int64_t end) {
    for_runs(w.rest, begin, end, [&](const int64_t* offset, int64_t n) {
      piece(w, {w.self + offset[0] * elem, w.other + offset[1] * elem, w.index + offset[2], n});
    });
  });
}

// Whether a gather is better done by columns: see visit_piece.
bool by_columns(const GatherWalk& w, size_t element_size) {
  const WalkDims::Dim& run = w.rest.last();
  return run.size >= 32 && run.stride[0] == 1 && run.stride[2] != 0 && w.stride > 1 && w.length >= 32 &&
         w.size * w.stride * static_cast<int64_t>(element_size) >= kFarBytes;
}

void gather_cpu(const GatherWalk& w, size_t element_size) {
  const WalkDims all = all_positions(w, 1);
  const int64_t total = all.numel();
  if (total == 0) return;
  if (w.size == 0) raise_first_bad(w);
  if (by_columns(w, element_size)) {
    check_indices(w);
    return visit_all(w, element_size,
                     dispatch_size(element_size, []<class T>() -> PieceFn { return &visit_piece<T, Fetch>; }));
  }
  const WalkDims::Dim& run = all.last();
  std::atomic<bool> ok{true};
  dispatch_size(element_size, [&]<class T>() {
    parallel_for(0, total, kGrain, [&](int64_t begin, int64_t end) {
      bool good = true;
      for_runs(all, begin, end, [&](const int64_t* offset, int64_t n) {
        good &= gather_run(reinterpret_cast<const T*>(w.self) + offset[0], run.stride[0],
                           reinterpret_cast<T*>(w.other) + offset[1], run.stride[1], w.index + offset[2], run.stride[2],
                           w.stride, w.size, n);
      });
      if (!good) ok.store(false, std::memory_order_relaxed);
    });
  });
  if (!ok.load()) raise_first_bad(w);
}

PieceFn piece_for(ScalarType dtype, Combine combine) {
  switch (combine) {
    case Combine::Set:
      return dispatch_size(elementSize(dtype), []<class T>() -> PieceFn { return &visit_piece<T, SetTo>; });
    case Combine::Add: return dispatch_dtype(dtype, []<class T>() -> PieceFn { return &visit_piece<T, AddTo>; });
    case Combine::Mul: return dispatch_dtype(dtype, []<class T>() -> PieceFn { return &visit_piece<T, MulTo>; });
    case Combine::Max: return dispatch_real(dtype, []<class T>() -> PieceFn { return &visit_piece<T, MaxTo>; });
    case Combine::Min: return dispatch_real(dtype, []<class T>() -> PieceFn { return &visit_piece<T, MinTo>; });
  }
  return nullptr;
}

// Every index is checked before the first entry is written. Threads share the rest dims, never the scattered one,
// whose indices are taken in order: of several writes to one place the last stays, and sums come out the same for any
// number of threads.
void scatter_cpu(const GatherWalk& w, ScalarType dtype, Combine combine) {
  const int64_t rest = w.rest.numel();
  if (rest == 0 || w.length == 0) return;
  const PieceFn piece = piece_for(dtype, combine);
  check_indices(w);
  visit_all(w, elementSize(dtype), piece);
}

const KernelRegistration gather_registration(OpId::gather, DeviceType::CPU, &gather_cpu);
const KernelRegistration scatter_registration(OpId::scatter, DeviceType::CPU, &scatter_cpu);

}  // namespace
}  // namespace facula
