// Walks the rows of tensors along one dimension: what sorts and scans share. Says where rows lie, not what is done with them.
#pragma once

#include "core/dim_vector.h"
#include "core/host_allocator.h"
#include "core/tensor_impl.h"
#include "cpu/copy_kernels.h"

#include <facula/core/error.h>

#include <initializer_list>

namespace facula::detail {

// The rows along `dim` of up to three tensors whose other sizes agree. The other dims are put into the memory order of the first tensor
// and joined where that is possible in all of them.
struct RowWalk {
  static constexpr int kMaxOperands = 3;

  RowWalk(std::initializer_list<const Tensor*> tensors, int64_t dim);

  // Distance between neighbouring rows of operand `i`, in elements.
  int64_t row_stride(int i) const { return strides[i].back(); }
  // Neighbouring rows that can be taken together.
  int64_t inner() const { return sizes.back(); }
  // Blocks of at most `block_rows` neighbouring rows.
  int64_t block_count(int64_t block_rows) const {
    return inner() == 0 ? 0 : rows / inner() * ((inner() + block_rows - 1) / block_rows);
  }
  bool rows_contiguous() const {
    for (int i = 0; i < operands; ++i)
      if (along[i] != 1) return false;
    return true;
  }

  int operands = 0;
  int64_t rows = 1;
  char* data[kMaxOperands] = {};
  int64_t elem[kMaxOperands] = {};
  int64_t along[kMaxOperands] = {};   // stride along the dim, in elements; 1 for rows of at most one element
  int64_t length[kMaxOperands] = {};  // size of the dim
  DimVector sizes;                    // of the other dims, never empty
  DimVector strides[kMaxOperands];
};

// Some neighbouring rows of every operand.
struct RowBlock {
  int64_t rows;
  int64_t first;  // position along the innermost dim
  char* data[RowWalk::kMaxOperands];
};

// Block number `index` of those with `block_rows` rows.
RowBlock row_block(const RowWalk& walk, int64_t block_rows, int64_t index);

// Memory for the length of a scope: on the stack when small.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes) {
    if (bytes <= sizeof(near_)) {
      data_ = near_;
      return;
    }
    data_ = static_cast<char*>(host_allocate(bytes));
    FACULA_CHECK(data_ != nullptr, OutOfMemoryError, "not enough memory for ", bytes, " bytes of work space");
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (data_ != near_) host_free(data_, bytes_);
  }
  char* data() const { return data_; }
  template <class T>
  T* as(size_t byte_offset = 0) const {
    return reinterpret_cast<T*>(data_ + byte_offset);
  }

 private:
  alignas(64) char near_[4096];
  char* data_;
  size_t bytes_;
};

inline constexpr size_t round_up_64(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// Rows of operand `i` of a block, to or from rows that lie one after the other in a buffer.
inline void gather_rows(const RowWalk& walk, const RowBlock& block, int i, void* buffer) {
  copy_block({buffer, block.data[i], block.rows, walk.length[i], walk.length[i], 1, walk.row_stride(i), walk.along[i]},
             static_cast<size_t>(walk.elem[i]), false);
}
inline void scatter_rows(const RowWalk& walk, const RowBlock& block, int i, const void* buffer) {
  copy_block({block.data[i], buffer, block.rows, walk.length[i], walk.row_stride(i), walk.along[i], walk.length[i], 1},
             static_cast<size_t>(walk.elem[i]), false);
}

}  // namespace facula::detail
