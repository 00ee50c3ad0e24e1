// Strided copies and fills of any number of dimensions: brings the dimensions into the best order, cuts the work into
// two-dimensional blocks and hands these to threads. The blocks themselves are copied in copy_kernels.cpp.
#include "cpu/copy.h"

#include <algorithm>
#include <cstdlib>

#include "cpu/copy_kernels.h"
#include "cpu/parallel.h"

namespace facula {

namespace {

constexpr int64_t kGrainBytes = 128 << 10;      // of one thread, at least
constexpr int64_t kBlockBytes = 64 << 10;       // of one block
constexpr int64_t kStreamTransposed = 8 << 20;  // bytes; transposed results from here on bypass the cache

struct Dim {
  int64_t size, dst, src;
};

// A copy with its dimensions from innermost to outermost in the destination, no destination stride negative.
struct Plan {
  char* dst;
  const char* src;
  int64_t elem;
  int64_t count = 1;
  int ndim = 0;
  Dim dims[64];  // sizes of at least 2 whose product is a count of elements: there cannot be more

  Plan(void* d, const int64_t* dst_strides, const void* s, const int64_t* src_strides, const int64_t* sizes, int n,
       size_t elem_size)
      : dst(static_cast<char*>(d)), src(static_cast<const char*>(s)), elem(static_cast<int64_t>(elem_size)) {
    for (int i = 0; i < n; ++i) count *= sizes[i];
    if (count == 0) return;
    for (int i = 0; i < n; ++i) {
      if (sizes[i] != 1) add({sizes[i], dst_strides[i], src_strides[i]});
    }
    std::sort(dims, dims + ndim, [](const Dim& a, const Dim& b) {
      return a.dst != b.dst ? a.dst < b.dst : std::abs(a.src) < std::abs(b.src);
    });
    collapse();
    while (ndim < 2) dims[ndim++] = {1, 1, 1};
    choose_rows();
  }

 private:
  void add(Dim d) {
    if (d.dst < 0) {  // walk it from its other end
      dst += (d.size - 1) * d.dst * elem;
      src += (d.size - 1) * d.src * elem;
      d.dst = -d.dst;
      d.src = -d.src;
    }
    dims[ndim++] = d;
  }

  void collapse() {
    int kept = 0;
    for (int i = 1; i < ndim; ++i) {
      Dim& inner = dims[kept];
      if (dims[i].dst == inner.dst * inner.size && dims[i].src == inner.src * inner.size) {
        inner.size *= dims[i].size;
      } else {
        dims[++kept] = dims[i];
      }
    }
    ndim = std::min(ndim, kept + 1);
  }

  // Dimension 0 runs along the columns of blocks, dimension 1 along their rows: the one contiguous in the source, if
  // 0 is not.
  void choose_rows() {
    if (dims[0].src == 1 || dims[0].src == 0) return;
    for (int i = 2; i < ndim; ++i) {
      if (dims[i].src == 1) return static_cast<void>(std::rotate(dims + 1, dims + i, dims + i + 1));
    }
  }
};

// Length and order of the blocks a plan is cut into.
struct Cut {
  int64_t rows, cols;
  bool rows_first;  // the next block lies along the rows
  bool stream;
};

Cut cut(const Plan& plan) {
  const Dim& col = plan.dims[0];
  const Dim& row = plan.dims[1];
  const int64_t most = kBlockBytes / plan.elem;
  if (col.src == 1 || row.src != 1 || row.size == 1) {
    const int64_t cols = std::min(col.size, most);
    return {std::min(row.size, std::max<int64_t>(1, most / cols)), cols, false,
            detail::worth_streaming(plan.count * plan.elem)};
  }
  // Transposes are bound by cache misses and page walks: blocks as measured best. Whole lines go straight from
  // registers to memory.
  const bool stream = plan.count * plan.elem >= kStreamTransposed;
  const bool lines = plan.elem >= 4 && reinterpret_cast<uintptr_t>(plan.dst) % 64 == 0 && row.dst * plan.elem % 64 == 0;
  const int64_t cols = std::min(col.size, stream && lines ? 64 : 1024 / plan.elem);
  const int64_t rows = std::min(row.size, std::max<int64_t>(stream && lines ? 256 : 64, 4096 / cols));
  return {rows, cols, true, stream};
}

// Counts through the blocks of a plan.
struct Walker {
  struct Axis {
    int64_t count, dst_step, src_step, at;
  };
  const Plan& plan;
  Cut shape;
  int row_axis, col_axis;
  Axis axes[64];
  int64_t dst_offset = 0, src_offset = 0;

  Walker(const Plan& p, const Cut& c) : plan(p), shape(c), row_axis(c.rows_first ? 0 : 1), col_axis(1 - row_axis) {
    axes[col_axis] = axis(p.dims[0], c.cols);
    axes[row_axis] = axis(p.dims[1], c.rows);
    for (int i = 2; i < p.ndim; ++i) axes[i] = axis(p.dims[i], 1);
  }

  int64_t blocks() const {
    int64_t n = 1;
    for (int i = 0; i < plan.ndim; ++i) n *= axes[i].count;
    return n;
  }

  void go_to(int64_t block) {
    dst_offset = src_offset = 0;
    for (int i = 0; i < plan.ndim; ++i) {
      Axis& a = axes[i];
      a.at = block % a.count;
      block /= a.count;
      dst_offset += a.at * a.dst_step;
      src_offset += a.at * a.src_step;
    }
  }

  void next() {
    for (int i = 0; i < plan.ndim; ++i) {
      Axis& a = axes[i];
      dst_offset += a.dst_step;
      src_offset += a.src_step;
      if (++a.at < a.count) return;
      dst_offset -= a.count * a.dst_step;
      src_offset -= a.count * a.src_step;
      a.at = 0;
    }
  }

  detail::Block2d block() const {
    const Dim& col = plan.dims[0];
    const Dim& row = plan.dims[1];
    return {.dst = plan.dst + dst_offset * plan.elem,
            .src = plan.src + src_offset * plan.elem,
            .rows = std::min(shape.rows, row.size - axes[row_axis].at * shape.rows),
            .cols = std::min(shape.cols, col.size - axes[col_axis].at * shape.cols),
            .dst_row = row.dst,
            .dst_col = col.dst,
            .src_row = row.src,
            .src_col = col.src};
  }

 private:
  static Axis axis(const Dim& d, int64_t length) {
    return {(d.size + length - 1) / length, d.dst * length, d.src * length, 0};
  }
};

void run(const Plan& plan) {
  if (plan.count == 0) return;
  const Cut shape = cut(plan);
  const Walker first(plan, shape);
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / (shape.rows * shape.cols * plan.elem));
  parallel_for(0, first.blocks(), grain, [&](int64_t begin, int64_t end) {
    Walker walker = first;
    walker.go_to(begin);
    for (int64_t b = begin; b < end; ++b, walker.next()) {
      detail::copy_block(walker.block(), static_cast<size_t>(plan.elem), shape.stream);
    }
  });
}

}  // namespace

void copy_strided(void* dst, const int64_t* dst_strides, const void* src, const int64_t* src_strides,
                  const int64_t* sizes, int ndim, size_t elem_size) {
  run(Plan(dst, dst_strides, src, src_strides, sizes, ndim, elem_size));
}

void fill_strided(void* dst, const int64_t* dst_strides, const int64_t* sizes, int ndim, const void* value,
                  size_t elem_size) {
  // A copy from one element, repeated along every dimension.
  int64_t zeros[64] = {};
  int64_t kept_sizes[64];
  int64_t kept_strides[64];
  int kept = 0;
  for (int i = 0; i < ndim; ++i) {
    if (sizes[i] == 0) return;
    if (sizes[i] == 1) continue;
    kept_sizes[kept] = sizes[i];
    kept_strides[kept++] = dst_strides[i];
  }
  run(Plan(dst, kept_strides, value, zeros, kept_sizes, kept, elem_size));
}

}  // namespace facula
