// The walks of cpu/index.h as kernels/index.h takes them: dims from the innermost, neighbours joined.
#pragma once

#include "cpu/index.h"
#include "gpu/primitives/launching.h"

namespace facula::gpu {

inline constexpr int kMostIndexDims = 12, kMostIndexTerms = 8;
inline constexpr int kIndexThreads = 256, kIndexTogether = 4;

struct IndexTerm {
  const int64_t* values = nullptr;
  int64_t step = 0, size = 0, stride = 0;
};

// Dims of entries with strides of self, other and the index tensors.
struct EntryDims {
  struct Dim {
    int64_t size;
    int64_t stride[3];
  };
  int count = 0;
  Dim dims[WalkDims::kMax + 1];

  void add(int64_t size, int64_t self, int64_t other, int64_t index) {
    if (size != 1) dims[count++] = {size, {self, other, index}};
  }
  // Orders the dims by one operand's strides, the smallest first, and joins those that are one run in all operands. There is at
  // least one dim afterwards.
  void normalise(int key);
  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < count; ++d) n *= dims[d].size;
    return n;
  }
  // The greatest offset of an operand.
  int64_t reach(int operand) const {
    int64_t sum = 0;
    for (int d = 0; d < count; ++d) sum += (dims[d].size - 1) * std::abs(dims[d].stride[operand]);
    return sum;
  }
};

// Both kinds of walks: `entries` are what the index tensors speak of, `rest` what belongs to each entry.
struct EntryWalk {
  explicit EntryWalk(const IndexWalk& walk);
  explicit EntryWalk(const GatherWalk& walk);

  char* self;
  char* other;
  const char* value = nullptr;  // one element in memory of the cpu, where `other` is null
  const char* fault_name;       // begins the text about a bad index
  EntryDims entries, rest;
  int terms = 0;
  IndexTerm term[kMostIndexTerms];
  bool wrap = false, checked = false;
  Work work;

 private:
  void set_work(const WalkMemory& memory);
};

// ---- what kernels are given: the order of members is that of kernels/index.h -------------------------------------------------------

struct alignas(16) ElementBytes {
  char bytes[16] = {};
};

template <class Index>
struct IndexDims {
  using Divider = decltype(DividerFor<Index>::of(1));
  alignas(8) Divider sizes[kMostIndexDims] = {};
  Index strides[3][kMostIndexDims] = {};

  void set(const EntryDims& from, const char* op) {
    FACULA_CHECK(from.count <= kMostIndexDims, NotSupportedError, op, ": tensors of ", from.count,
                 " dimensions that do not lie after one another in memory are not possible on a GPU; at most ",
                 kMostIndexDims, " are. Call .contiguous() first");
    for (int d = 0; d < from.count; ++d) {
      sizes[d] = DividerFor<Index>::of(from.dims[d].size);
      for (int k = 0; k < 3; ++k) strides[k][d] = static_cast<Index>(from.dims[d].stride[k]);
    }
  }
};

template <class Index>
struct IndexArgs {
  void* self = nullptr;
  void* other = nullptr;
  void* fault_record = nullptr;
  int64_t fault_op = 0;
  const int32_t* winners = nullptr;
  const uint32_t* slots = nullptr;
  IndexTerm terms[kMostIndexTerms];
  IndexDims<Index> dims;
  ElementBytes value;
  Index count = 0;
  int32_t dim_count = 0, term_count = 0, wrap = 0, by_position = 0;

  // All but the dims.
  void set(const EntryWalk& walk) {
    self = walk.self;
    other = walk.other;
    fault_record = fault_buffer(walk.work.device);
    fault_op = static_cast<int64_t>(reinterpret_cast<intptr_t>(walk.fault_name));
    std::copy(walk.term, walk.term + walk.terms, terms);
    term_count = walk.terms;
    wrap = walk.wrap;
  }
  void set_dims(const EntryDims& from, const char* op) {
    dims.set(from, op);
    dim_count = from.count;
    count = static_cast<Index>(from.numel());
  }
};

// Folds what is written into what is there: every combination but Set.
struct FoldOptions {
  ScalarType from = ScalarType::Undefined;  // of `other`: half types may be added to floats; else as self
  int64_t skipped_index = -1;               // of the one index tensor: its entries do not count
  bool by_frequency = false;                // what goes to one place is divided by the number of its entries
};
void fold_at_indices(const EntryWalk& walk, ScalarType dtype, Combine combine, const FoldOptions& options = {});

}  // namespace facula::gpu
