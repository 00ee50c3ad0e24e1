// The CPU kernels of softmax and log_softmax: walk a contiguous tensor by rows, by columns or by pieces of long rows, with threads. The
// arithmetic is in simd/rowwise_ops.cpp.
#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"
#include "cpu/simd/rowwise_ops.h"

#include <facula/tensor.h>

#include <algorithm>

namespace facula {
namespace {

using cpu::RowOps;
using detail::Scratch;

// Entries that are worth a thread.
constexpr int64_t kGrain = 4096;
// Rows longer than this no longer stay in the cache: they are read twice, in pieces, whatever the number of threads.
constexpr int64_t kLongRow = int64_t{1} << 17;
constexpr int64_t kPiece = int64_t{1} << 14;
// Rows up to this length are turned into columns, many at a time, when there are many.
constexpr int64_t kNarrowRow = 32;
constexpr int64_t kManyRows = 16;
// With fewer neighbouring columns than this, a column is gathered into a row.
constexpr int64_t kFewColumns = 16;

// The tensors as [outer, n, inner], and the functions that compute.
struct Job {
  const char* in;
  char* out;
  int64_t outer, n, inner;
  ScalarType from, to;
  int64_t in_size, out_size, work_size;  // bytes of an entry in memory and in the compute type
  ConvertFn load, store;                 // null where memory holds the compute type
  RowOps::Row row;
  RowOps::Columns columns;
  RowOps::Finish finish;
  const RowOps* ops;
};

// One entry for each piece of a row, in memory or brought into the compute type first.
template <class F>
void over_pieces(const Job& job, const char* row, const F& f) {
  const int64_t pieces = (job.n + kPiece - 1) / kPiece;
  parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    Scratch scratch(job.load || job.store ? static_cast<size_t>(kPiece * job.work_size) : 0);
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPiece, count = std::min(kPiece, job.n - first);
      const void* x = row + first * job.in_size;
      if (job.load) {
        job.load(x, scratch.data(), static_cast<size_t>(count));
        x = scratch.data();
      }
      f(p, first, count, x, scratch.data());
    }
  });
}

void long_row(const Job& job, int64_t index) {
  const int64_t pieces = (job.n + kPiece - 1) / kPiece;
  const char* in = job.in + index * job.n * job.in_size;
  char* out = job.out + index * job.n * job.out_size;
  Scratch states(static_cast<size_t>((pieces + 1) * 2 * job.work_size));
  char* merged = states.data() + pieces * 2 * job.work_size;
  over_pieces(job, in, [&](int64_t p, int64_t, int64_t count, const void* x, void*) {
    job.ops->state_of(x, count, states.data() + p * 2 * job.work_size);
  });
  job.ops->merge_states(states.data(), pieces, merged);
  over_pieces(job, in, [&](int64_t, int64_t first, int64_t count, const void* x, void* room) {
    char* target = out + first * job.out_size;
    job.finish(x, job.store ? room : target, count, merged);
    if (job.store) job.store(room, target, static_cast<size_t>(count));
  });
}

void by_rows(const Job& job) {
  const int64_t n = job.n;
  if (n > kLongRow) {
    if (job.outer >= get_num_threads()) {
      return parallel_for(0, job.outer, 1, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) long_row(job, r);
      });
    }
    for (int64_t r = 0; r < job.outer; ++r) long_row(job, r);
    return;
  }
  parallel_rows(job.outer, n, kGrain, [&](int64_t begin, int64_t end) {
    if (!job.load && !job.store) {
      for (int64_t r = begin; r < end; ++r) job.row(job.in + r * n * job.in_size, job.out + r * n * job.out_size, n);
      return;
    }
    // Short rows are converted several at a time.
    const int64_t block = std::max<int64_t>(1, 2048 / n);
    Scratch scratch(static_cast<size_t>(std::min(block, end - begin) * n * job.work_size));
    for (int64_t first = begin; first < end; first += block) {
      const int64_t rows = std::min(block, end - first);
      const char* in = job.in + first * n * job.in_size;
      char* out = job.out + first * n * job.out_size;
      if (job.load) job.load(in, scratch.data(), static_cast<size_t>(rows * n));
      char* result = job.store ? scratch.data() : out;
      const char* source = job.load ? scratch.data() : in;
      for (int64_t r = 0; r < rows; ++r) job.row(source + r * n * job.work_size, result + r * n * job.work_size, n);
      if (job.store) job.store(result, out, static_cast<size_t>(rows * n));
    }
  });
}

void by_narrow_rows(const Job& job) {
  const int64_t n = job.n, block = 2048 / n / 16 * 16;
  parallel_rows((job.outer + block - 1) / block, n * block, kGrain, [&](int64_t begin, int64_t end) {
    Scratch scratch(static_cast<size_t>(n * block * job.work_size));
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * block, rows = std::min(block, job.outer - first);
      load_block(job.in + first * n * job.in_size, job.from, n, rows, 1, n, scratch.data());
      job.columns(scratch.data(), rows, scratch.data(), rows, n, rows);
      store_block(scratch.data(), job.to, n, rows, 1, n, job.out + first * n * job.out_size);
    }
  });
}

void by_few_columns(const Job& job) {
  const int64_t n = job.n, inner = job.inner;
  parallel_rows(job.outer, n * inner, kGrain, [&](int64_t begin, int64_t end) {
    Scratch scratch(static_cast<size_t>(n * inner * job.work_size));
    for (int64_t o = begin; o < end; ++o) {
      const int64_t at = o * n * inner;
      load_block(job.in + at * job.in_size, job.from, inner, n, 1, inner, scratch.data());
      for (int64_t c = 0; c < inner; ++c) {
        char* row = scratch.data() + c * n * job.work_size;
        job.row(row, row, n);
      }
      store_block(scratch.data(), job.to, inner, n, 1, inner, job.out + at * job.out_size);
    }
  });
}

void by_columns(const Job& job) {
  const int64_t n = job.n, inner = job.inner;
  const int64_t width = std::min(inner, std::clamp<int64_t>((int64_t{1} << 16) / n / 64 * 64, 64, 256));
  const int64_t blocks = (inner + width - 1) / width;
  parallel_rows(job.outer * blocks, n * width, kGrain, [&](int64_t begin, int64_t end) {
    Scratch scratch(job.load || job.store ? static_cast<size_t>(n * width * job.work_size) : 0);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b % blocks * width, cols = std::min(width, inner - first);
      const int64_t at = b / blocks * n * inner + first;
      const char* in = job.in + at * job.in_size;
      char* out = job.out + at * job.out_size;
      if (job.load) load_block(in, job.from, n, cols, inner, 1, scratch.data());
      job.columns(job.load ? scratch.data() : in, job.load ? cols : inner, job.store ? scratch.data() : out,
                  job.store ? cols : inner, n, cols);
      if (job.store) store_block(scratch.data(), job.to, n, cols, inner, 1, out);
    }
  });
}

// Both tensors are contiguous and have one compute type.
void run(const Tensor& self, int64_t dim, const Tensor& result, bool log) {
  const TensorImpl *in = self.impl(), *out = result.impl();
  if (out->numel == 0) return;
  Job job;
  job.in = in->data();
  job.out = out->data();
  job.outer = job.n = job.inner = 1;
  for (int64_t d = 0; d < in->dim(); ++d)
    (d < dim ? job.outer : d == dim ? job.n : job.inner) *= in->sizes[static_cast<size_t>(d)];
  job.from = in->dtype;
  job.to = out->dtype;
  const CType type = compute_type(job.to);
  job.in_size = static_cast<int64_t>(elementSize(job.from));
  job.out_size = static_cast<int64_t>(elementSize(job.to));
  job.work_size = static_cast<int64_t>(ctype_size(type));
  job.load = load_fn(job.from);
  job.store = store_fn(job.to);
  const RowOps& ops = cpu::row_ops(type);
  job.ops = &ops;
  job.row = log ? ops.log_softmax : ops.softmax;
  job.columns = log ? ops.log_softmax_columns : ops.softmax_columns;
  job.finish = log ? ops.finish_log_softmax : ops.finish_softmax;
  if (job.inner == 1 && job.n <= kNarrowRow && job.outer >= kManyRows) by_narrow_rows(job);
  else if (job.inner == 1) by_rows(job);
  else if (job.inner < kFewColumns) by_few_columns(job);
  else by_columns(job);
}

void softmax_cpu(const Tensor& self, int64_t dim, const Tensor& result) { run(self, dim, result, false); }
void log_softmax_cpu(const Tensor& self, int64_t dim, const Tensor& result) { run(self, dim, result, true); }

const KernelRegistration softmax_registration(OpId::softmax, DeviceType::CPU, &softmax_cpu);
const KernelRegistration log_softmax_registration(OpId::log_softmax, DeviceType::CPU, &log_softmax_cpu);

}  // namespace
}  // namespace facula
