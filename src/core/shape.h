// Arithmetic on sizes and strides: counts with overflow checks, wrapping of dims, broadcasting, memory formats.
#pragma once

#include "core/dim_vector.h"

#include <facula/core/array_ref.h>
#include <facula/core/memory_format.h>
#include <facula/tensor.h>

#include <bitset>

namespace facula {

constexpr int64_t kMaxDims = 64;
using DimMask = std::bitset<kMaxDims>;

// Product of sizes. Throws ShapeError when a size is negative or the byte count would overflow 64 bits.
int64_t checked_numel(IntArrayRef sizes, size_t element_size, const char* op);
DimVector contiguous_strides(IntArrayRef sizes);
// Strides for a memory format (Preserve counts as Contiguous here). Throws when the rank does not fit the format.
DimVector strides_for(IntArrayRef sizes, MemoryFormat format, const char* op);
bool is_contiguous(IntArrayRef sizes, IntArrayRef strides, MemoryFormat format);
// Strides that keep the memory order of another tensor with the same sizes (dense, permuted alike).
DimVector preserved_strides(IntArrayRef sizes, IntArrayRef strides);
bool is_non_overlapping_and_dense(IntArrayRef sizes, IntArrayRef strides);
// Elements from the first to one past the last that a strided tensor touches; 0 when empty.
int64_t storage_extent(IntArrayRef sizes, IntArrayRef strides, int64_t offset);

// Maps dim in [-rank, rank) to [0, rank); a zero-dim tensor counts as rank 1. Throws IndexError.
int64_t wrap_dim(int64_t dim, int64_t rank, const char* op);
// What a user reads of an index that an op does not take: "PREFIXindex 7 is out of bounds for dimension 0 with size 5;
// it must lie in [-5, 4]". `wraps`: negative ones count from the end.
[[noreturn]] FACULA_API void raise_out_of_bounds(const char* prefix, int64_t index, int64_t dim, int64_t size,
                                                 bool wraps = true);
// The last part of that text.
std::string allowed_indices(int64_t size, bool wraps = true);
DimVector wrap_dims(IntArrayRef dims, int64_t rank, const char* op);  // also refuses repeats
DimMask dim_mask(IntArrayRef dims, int64_t rank, const char* op);     // empty dims means all

// NumPy's rule. Throws ShapeError that names both shapes.
DimVector broadcast_sizes(IntArrayRef a, IntArrayRef b, const char* op);
// Strides of a tensor seen with broadcast sizes: 0 along stretched dims.
DimVector broadcast_strides(IntArrayRef sizes, IntArrayRef strides, IntArrayRef target);

// Strides for viewing (sizes, strides) as `target`, or nullopt when only a copy would do.
std::optional<DimVector> view_strides(IntArrayRef sizes, IntArrayRef strides, IntArrayRef target);
// Replaces one -1 in `target` so that the product is `numel`.
DimVector infer_size(IntArrayRef target, int64_t numel, const char* op);

// Two elements of the tensor may share memory (an expanded tensor, for one).
bool has_internal_overlap(IntArrayRef sizes, IntArrayRef strides);
enum class Overlap { None, Full, Partial, Unknown };
Overlap memory_overlap(const Tensor& a, const Tensor& b);
// Whether any element is of both; where that would take long to find out, yes.
bool share_memory(const Tensor& a, const Tensor& b);
// For writes: refuses a target whose elements share memory, and inputs that overlap it other than exactly.
void check_no_internal_overlap(const Tensor& target, const char* op);
void check_no_partial_overlap(const Tensor& target, const Tensor& input, const char* op);
void check_no_overlap(const Tensor& target, const Tensor& input, const char* op);

}  // namespace facula
