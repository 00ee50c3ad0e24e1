// Where entries at indices lie in memory: what the meanings of index, gather, scatter and their kin hand to the CPU
// kernels. Says nothing of how the kernels walk.
#pragma once

#include "core/function_ref.h"
#include "core/tensor_impl.h"

#include <facula/tensor.h>

#include <initializer_list>

namespace facula {

// What becomes of an entry that is written: replaced, or folded with the new value.
enum class Combine : uint8_t { Set, Add, Mul, Max, Min };

// Dims that up to three operands share, with a stride for each (in elements).
struct WalkDims {
  struct Dim {
    int64_t size;
    int64_t stride[3];
  };
  static constexpr int kMax = 66;

  void add(int64_t size, int64_t first, int64_t second, int64_t third = 0) {
    if (size != 1) dims[n++] = {size, {first, second, third}};
  }
  // Brings the dims into descending order of one operand's strides and joins those that are one run in all operands.
  // There is at least one dim afterwards.
  void normalise(int key);
  int64_t numel() const {
    int64_t count = 1;
    for (int i = 0; i < n; ++i) count *= dims[i].size;
    return count;
  }
  const Dim& last() const { return dims[n - 1]; }

  int n = 0;
  Dim dims[kMax];
};

// Calls f(offsets, length) for the runs of the innermost dim that make up the positions [begin, end).
template <class F>
void for_runs(const WalkDims& walk, int64_t begin, int64_t end, F&& f) {
  if (begin >= end) return;
  const int outer = walk.n - 1;
  const WalkDims::Dim& run = walk.dims[outer];
  int64_t at[WalkDims::kMax];
  int64_t offset[3] = {0, 0, 0};
  int64_t start = begin % run.size;
  for (int64_t i = outer - 1, rest = begin / run.size; i >= 0; --i) {
    const WalkDims::Dim& d = walk.dims[i];
    at[i] = rest % d.size;
    rest /= d.size;
    for (int k = 0; k < 3; ++k) offset[k] += at[i] * d.stride[k];
  }
  for (int64_t done = begin; done < end;) {
    const int64_t length = run.size - start < end - done ? run.size - start : end - done;
    const int64_t here[3] = {offset[0] + start * run.stride[0], offset[1] + start * run.stride[1],
                             offset[2] + start * run.stride[2]};
    f(here, length);
    done += length;
    start = 0;
    for (int i = outer - 1; i >= 0; --i) {
      const WalkDims::Dim& d = walk.dims[i];
      for (int k = 0; k < 3; ++k) offset[k] += d.stride[k];
      if (++at[i] < d.size) break;
      for (int k = 0; k < 3; ++k) offset[k] -= d.size * d.stride[k];
      at[i] = 0;
    }
  }
}

// How an index out of range is told: as raise_out_of_bounds does, or for `flat` ones by the number of elements.
struct IndexErrorText {
  const char* prefix;
  int64_t dim;
  bool flat = false;
};
[[noreturn]] void raise_out_of_range(const IndexErrorText& text, int64_t index, int64_t size, bool wraps);

// The memory that a walk touches: kernels of GPUs run behind the caller's back and must tell whose memory they use.
struct WalkMemory {
  void add(std::initializer_list<const Tensor*> tensors) {
    for (const Tensor* t : tensors)
      if (t->defined()) storages[count++] = t->impl()->storage.get();
  }
  size_t count = 0;
  StorageImpl* storages[68];
};

// The entries of `self` at `count` places, each of them a sum of terms index * stride, times the rest dims; and their
// counterparts in `other`.
struct IndexWalk {
  struct Term {
    const int64_t* values;
    int64_t step;  // 0: one value for all places
    int64_t size;
    int64_t stride;
    int64_t dim;
  };

  IndexErrorText error{"index: ", 0};
  bool wrap = true;      // negative indices count from the end
  bool checked = false;  // the indices are known to be in range
  bool value = false;    // `other` is one element in memory of the cpu, its strides are 0
  char* self = nullptr;
  char* other = nullptr;
  int64_t count = 1;
  int64_t other_step = 0;  // stride of `other` from place to place
  WalkDims rest;           // strides of self and other
  int terms = 0;
  Term term[64];
  WalkMemory memory;
};

// The entries self[p, index[p] at dim] for every place p of the index; and their counterparts in `other`.
struct GatherWalk {
  IndexErrorText error{"gather: ", 0};
  bool value = false;  // `other` is one element in memory of the cpu, its strides are 0
  char* self = nullptr;
  char* other = nullptr;
  const int64_t* index = nullptr;
  int64_t size = 0;    // of self along the dim
  int64_t stride = 0;  // likewise
  // Along the dim: entries of the index, strides of other and index.
  int64_t length = 0, other_step = 0, index_step = 0;
  WalkDims rest;  // strides of self, other and index
  WalkMemory memory;
};

// Signatures of the kernels in the table.
using IndexKernel = void(const IndexWalk&, size_t element_size);
using IndexPutKernel = void(const IndexWalk&, ScalarType, Combine);
using GatherKernel = void(const GatherWalk&, size_t element_size);
using ScatterKernel = void(const GatherWalk&, ScalarType, Combine);
// The mask is a contiguous bool or uint8 tensor; `make` yields the result for a number of true entries.
using MaskedSelectKernel = Tensor(const Tensor& self, const Tensor& mask, FunctionRef<Tensor(int64_t)> make);
// Writes the entries of contiguous `source` over those of contiguous `self` where the mask is true. Raises when there
// are too few.
using MaskedScatterKernel = void(const Tensor& self, const Tensor& mask, const Tensor& source);
// The result of `make` is int64 and holds positions in the sizes of the mask, one column per dim, with any strides.
// With `flat` it is a vector of positions in the flattened mask.
using NonzeroKernel = Tensor(const Tensor& mask, bool flat, FunctionRef<Tensor(int64_t)> make);

}  // namespace facula
