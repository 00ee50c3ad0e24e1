// CPU kernels of index and index_put: entries at sums of index terms, read, written or folded. Also what they share
// with scatter.cpp.
#include "cpu/index.h"

#include "core/dispatch.h"
#include "core/kernel_table.h"
#include "core/shape.h"
#include "cpu/accumulate.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace facula {

void WalkDims::normalise(int key) {
  for (int i = 1; i < n; ++i) {
    const Dim d = dims[i];
    int j = i;
    for (; j > 0 && dims[j - 1].stride[key] < d.stride[key]; --j) dims[j] = dims[j - 1];
    dims[j] = d;
  }
  int kept = 0;
  for (int i = 1; i < n; ++i) {
    Dim& outer = dims[kept];
    const Dim& inner = dims[i];
    bool joined = true;
    for (int k = 0; k < 3; ++k) joined &= outer.stride[k] == inner.stride[k] * inner.size;
    if (joined) outer = {outer.size * inner.size, {inner.stride[0], inner.stride[1], inner.stride[2]}};
    else dims[++kept] = inner;
  }
  if (n == 0) dims[0] = {1, {0, 0, 0}};
  n = kept + 1;
}

void raise_out_of_range(const IndexErrorText& text, int64_t index, int64_t size, bool wraps) {
  if (text.flat)
    throw IndexError(str(text.prefix, "out of range: tried to access index ", index, " on a tensor of ", size,
                         " elements; ", allowed_indices(size, wraps)));
  raise_out_of_bounds(text.prefix, index, text.dim, size, wraps);
}

namespace {

using namespace detail;

constexpr int64_t kGrain = 16384;  // elements that are worth a thread

// Places whose offsets are computed at a time: few when each is used once, many when a whole pass over the rest dims
// follows.
constexpr int64_t kFewPlaces = 512;
constexpr int64_t kManyPlaces = 16384;

constexpr int64_t kFarBytes = 1 << 20;
constexpr int64_t kAhead = 24;  // places, measured

// A block of places and a run of the innermost rest dim.
struct Piece {
  char* self;
  char* other;
  const int64_t* offsets;
  int64_t places, other_step;
  int64_t run, self_stride, other_stride;
  bool far;  // self is larger than the caches: single entries are asked for ahead of their use
};
using PieceFn = void (*)(const Piece&);

bool term_in_range(const IndexWalk& w, const IndexWalk::Term& t, int64_t begin, int64_t end) {
  if (t.step == 0) end = std::min(end, begin + 1);
  const int64_t* v = t.values + begin * t.step;
  // Distances to both ends are non-negative exactly when the index is in range; sums of them need no branches.
  const uint64_t low = static_cast<uint64_t>(w.wrap ? t.size : 0), last = static_cast<uint64_t>(t.size) - 1;
  uint64_t bad = 0;
  for (int64_t j = 0; j < end - begin; ++j)
    bad |= (static_cast<uint64_t>(v[j]) + low) | (last - static_cast<uint64_t>(v[j]));
  return (bad >> 63) == 0;
}

[[noreturn]] void raise_first_bad(const IndexWalk& w) {
  for (int k = 0; k < w.terms; ++k) {
    const IndexWalk::Term& t = w.term[k];
    for (int64_t j = 0; j < (t.step ? w.count : 1); ++j) {
      const int64_t v = t.values[j];
      if (v >= t.size || v < (w.wrap ? -t.size : 0)) {
        IndexErrorText text = w.error;
        text.dim = t.dim;
        raise_out_of_range(text, v, t.size, w.wrap);
      }
    }
  }
  FACULA_INTERNAL_CHECK(false);
  std::abort();
}

void check_indices(const IndexWalk& w) {
  if (w.checked || w.count == 0) return;
  std::atomic<bool> ok{true};
  parallel_for(0, w.count, 4 * kGrain, [&](int64_t begin, int64_t end) {
    for (int k = 0; k < w.terms; ++k)
      if (!term_in_range(w, w.term[k], begin, end)) return ok.store(false, std::memory_order_relaxed);
  });
  if (!ok.load()) raise_first_bad(w);
}

// Offsets in self of n places that are in range.
void compute_offsets(const IndexWalk& w, int64_t begin, int64_t n, int64_t* offsets) {
  for (int k = 0; k < w.terms; ++k) {
    const IndexWalk::Term& t = w.term[k];
    const int64_t wrap = w.wrap ? t.size : 0, stride = t.stride;
    const int64_t* v = t.values + begin * t.step;
    auto offset = [&](int64_t j) { return (v[j] + ((v[j] >> 63) & wrap)) * stride; };
    if (t.step == 0) {
      const int64_t same = offset(0);
      if (k == 0) std::fill(offsets, offsets + n, same);
      else
        for (int64_t j = 0; j < n; ++j) offsets[j] += same;
    } else if (k == 0 && stride == 1) {
      for (int64_t j = 0; j < n; ++j) offsets[j] = v[j] + ((v[j] >> 63) & wrap);
    } else if (k == 0) {
      for (int64_t j = 0; j < n; ++j) offsets[j] = offset(j);
    } else {
      for (int64_t j = 0; j < n; ++j) offsets[j] += offset(j);
    }
  }
}

bool places_in_range(const IndexWalk& w, int64_t begin, int64_t end) {
  for (int k = 0; k < w.terms; ++k)
    if (!term_in_range(w, w.term[k], begin, end)) return false;
  return true;
}

// Calls `piece` for all places and all of the rest. Places are split among threads only when their order does not
// matter; otherwise the rest dims are, which makes the result the same for any number of threads.
void walk(const IndexWalk& w, size_t element_size, bool ordered, bool checked, PieceFn piece) {
  const int64_t elem = static_cast<int64_t>(element_size);
  const int64_t rest = w.rest.numel();
  if (w.count == 0) return;
  if (rest == 0) return check_indices(w);
  const WalkDims::Dim& run = w.rest.last();
  int64_t reach = 0;
  for (int k = 0; k < w.terms; ++k) reach += w.term[k].size * w.term[k].stride;
  const bool far = reach * elem >= kFarBytes;
  std::atomic<bool> ok{true};
  auto part = [&](int64_t first, int64_t last, int64_t rest_begin, int64_t rest_end) {
    const int64_t block = std::min(last - first, rest_end - rest_begin == 1 ? kFewPlaces : kManyPlaces);
    Scratch scratch(static_cast<size_t>(block) * sizeof(int64_t));
    int64_t* offsets = scratch.as<int64_t>();
    for (int64_t j = first; j < last; j += block) {
      const int64_t n = std::min(block, last - j);
      if (!checked && !places_in_range(w, j, j + n)) return ok.store(false, std::memory_order_relaxed);
      compute_offsets(w, j, n, offsets);
      for_runs(w.rest, rest_begin, rest_end, [&](const int64_t* offset, int64_t length) {
        piece({w.self + offset[0] * elem, w.other + (offset[1] + j * w.other_step) * elem, offsets, n, w.other_step,
               length, run.stride[0], run.stride[1], far});
      });
    }
  };
  const bool split_places = !ordered && (rest == 1 || w.other_step >= w.rest.dims[0].stride[1]);
  if (split_places) {
    parallel_for(0, w.count, std::max<int64_t>(1, kGrain / rest), [&](int64_t b, int64_t e) { part(b, e, 0, rest); });
  } else {
    parallel_for(0, rest, std::max<int64_t>(1, kGrain / w.count),
                 [&](int64_t b, int64_t e) { part(0, w.count, b, e); });
  }
  if (!ok.load()) raise_first_bad(w);
}

// Whether the inner loop goes over places rather than along the run: whichever lies closer together.
bool places_inside(const Piece& p) {
  return p.run == 1 || (p.other_stride != 0 ? p.other_step < p.other_stride : p.self_stride != 1);
}

// Rows of a length known to the compiler. They lie anywhere: the next ones are asked for while others are copied.
template <size_t kBytes, class T>
void copy_rows(const Piece& p) {
  const T* self = reinterpret_cast<const T*>(p.self);
  T* other = reinterpret_cast<T*>(p.other);
  int64_t j = 0;
  for (; j + 8 < p.places; ++j) {
    __builtin_prefetch(self + p.offsets[j + 8]);
    std::memcpy(other + j * p.other_step, self + p.offsets[j], kBytes);
  }
  for (; j < p.places; ++j) std::memcpy(other + j * p.other_step, self + p.offsets[j], kBytes);
}

template <class T>
void get_piece(const Piece& p) {
  const T* self = reinterpret_cast<const T*>(p.self);
  T* other = reinterpret_cast<T*>(p.other);
  if (places_inside(p)) {
    for (int64_t r = 0; r < p.run; ++r) {
      const T* from = self + r * p.self_stride;
      T* to = other + r * p.other_stride;
      if (p.other_step == 1) {
        int64_t j = 0;
        for (; p.far && j + kAhead < p.places; ++j) {
          __builtin_prefetch(from + p.offsets[j + kAhead]);
          to[j] = from[p.offsets[j]];
        }
        for (; j < p.places; ++j) to[j] = from[p.offsets[j]];
      } else {
        for (int64_t j = 0; j < p.places; ++j) to[j * p.other_step] = from[p.offsets[j]];
      }
    }
    return;
  }
  const bool rows = p.self_stride == 1 && p.other_stride == 1;
  if (rows) {
    const int64_t bytes = p.run * static_cast<int64_t>(sizeof(T));
    if (bytes == 16) return copy_rows<16, T>(p);
    if (bytes == 32) return copy_rows<32, T>(p);
    if (bytes == 64) return copy_rows<64, T>(p);
    if (bytes == 128) return copy_rows<128, T>(p);
  }
  for (int64_t j = 0; j < p.places; ++j) {
    const T* from = self + p.offsets[j];
    T* to = other + j * p.other_step;
    if (rows) {
      // Rows lie anywhere: the next ones are asked for while this one is copied.
      if (j + 2 < p.places) __builtin_prefetch(self + p.offsets[j + 2]);
      std::memcpy(to, from, static_cast<size_t>(p.run) * sizeof(T));
    } else {
      for (int64_t r = 0; r < p.run; ++r) to[r * p.other_stride] = from[r * p.self_stride];
    }
  }
}

template <class T, class Op>
void fold_piece(const Piece& p) {
  T* self = reinterpret_cast<T*>(p.self);
  const T* other = reinterpret_cast<const T*>(p.other);
  if (places_inside(p)) {
    for (int64_t r = 0; r < p.run; ++r) {
      T* to = self + r * p.self_stride;
      const T* from = other + r * p.other_stride;
      int64_t j = 0;
      for (; p.far && j + kAhead < p.places; ++j) {
        __builtin_prefetch(to + p.offsets[j + kAhead], 1);
        Op::apply(to[p.offsets[j]], from[j * p.other_step]);
      }
      for (; j < p.places; ++j) Op::apply(to[p.offsets[j]], from[j * p.other_step]);
    }
    return;
  }
  for (int64_t j = 0; j < p.places; ++j)
    fold_row<T, Op>(self + p.offsets[j], p.self_stride, other + j * p.other_step, p.other_stride, p.run);
}

void index_cpu(const IndexWalk& w, size_t element_size) {
  walk(w, element_size, false, w.checked,
       dispatch_size(element_size, []<class T>() -> PieceFn { return &get_piece<T>; }));
}

// Every index is checked before the first entry is written.
void index_put_cpu(const IndexWalk& w, ScalarType dtype, Combine combine) {
  const size_t size = elementSize(dtype);
  const PieceFn piece = combine == Combine::Set
                            ? dispatch_size(size, []<class T>() -> PieceFn { return &fold_piece<T, SetTo>; })
                            : dispatch_dtype(dtype, []<class T>() -> PieceFn { return &fold_piece<T, AddTo>; });
  FACULA_INTERNAL_CHECK(combine == Combine::Set || combine == Combine::Add);
  check_indices(w);
  walk(w, size, true, true, piece);
}

const KernelRegistration index_registration(OpId::index, DeviceType::CPU, &index_cpu);
const KernelRegistration index_put_registration(OpId::index_put, DeviceType::CPU, &index_put_cpu);

}  // namespace
}  // namespace facula
